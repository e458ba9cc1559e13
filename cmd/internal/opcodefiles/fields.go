package opcodefiles

// Field is a field of a file of opcodes, for documentation.
type Field struct{ Name, Text string }

// Fields are the fields of an opcode in a file, in the order of their importance.
func Fields() []Field {
	return []Field{
		{"name", "the name of the opcode, which begins with OP_"},
		{"doc", "what it does, in a sentence"},
		{"summary", "the parameter that lists of jobs show with the opcode"},
		{"params", "a list of its parameters; see below"},
		{"command",
			"a list: the program and its arguments. ${NAME} stands for the value of a parameter; " +
				"an argument that consists of ${NAME} of a list becomes one argument for each element"},
		{"env", "variables of the environment of the command, with ${NAME}"},
		{"cwd", "the directory in which the command runs"},
		{"stdin", "the standard input of the command"},
		{"timeout", "after how long the command is ended: seconds, or a duration like 90s or 1h"},
		{"keep_output", "true: all output of the command is kept in files, unless a job says otherwise"},
		{"retry",
			"how often a command that has failed is tried again, from 1 to 5 times, or times, delay, max_delay and on; " +
				"a submission may say otherwise"},
		{"limits",
			"what the command may use of its node: memory, cpus, tasks, io_weight and nice; a submission may say otherwise"},
		{"user", "the user as whom the command runs: the name of an account, or submitter (default: the user of the daemon)"},
		{"submit",
			"who may submit it without the role operate: true for all who may submit commands, " +
				"or a list of names of users and of group:NAME"},
		{"locks", "locks that the command needs, and for each exclusive or shared"},
	}
}

// ParamFields are the fields of a parameter of an opcode in a file.
func ParamFields() []Field {
	return []Field{
		{"name", "the name of the parameter"},
		{"type", "its type, such as NonEmptyString, List of NonEmptyString, or OneOf slow, fast"},
		{"doc", "what it is for"},
		{"required", "true: a job without it is refused"},
		{"default", "its value if a job has none"},
		{"secret", "true: its value is kept in memory only, and may be used in env only"},
	}
}
