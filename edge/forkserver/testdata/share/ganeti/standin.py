"""What the stand-in for Ganeti's job program loads. It is loaded once, by the fork server or by an executed process."""

import logging  # as all of Ganeti's programs: it has a function for the end
import os
import random
import time

LOADED_BY = os.getpid()
LOADED = time.time_ns()
FIRST = random.random()
