package jobfile

// Template is a file of jobs with comments.
const Template = `# Jobs for "lockstep submit FILE". All keys: man 5 lockstep-jobs.
jobs:
  - name: dump            # other jobs can come after it
    run: [pg_dump, --file=site.sql, site]   # the program and its arguments; there is no shell
    lock: database        # held while the command runs; [a, b:shared] are two locks
    timeout: 2h           # then the command is ended: seconds, or with a unit (s, m, h, d, w)
    retry: 3              # if it fails: up to 3 further tries, after 10s, 20s and 40s
    limits: {memory: 2G, cpus: 1.5, nice: 10} # what it may use of its node
    cwd: /srv/backup      # without it: the directory where "lockstep submit" is called
    env: {PGUSER: backup} # further variables
    priority: low         # low, normal or high

  - name: pack
    after: dump           # if dump fails, this job fails
    run: gzip < /srv/backup/site.sql > /srv/backup/site.sql.gz
    shell: true           # run is a text for sh -c

  - after: [dump, "pack:success,error"]   # also ids and names of existing jobs
    steps:                # one after the other, until one fails
      - run: [rsync, -a, /srv/backup/, "backup:/srv/"]
        lock: [uplink:shared]
      - OP_ID: OP_TEST_DELAY   # an opcode; "lockstep opcode list" lists them
        duration: 2s
`
