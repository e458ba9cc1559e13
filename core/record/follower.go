package record

// followedKey says that the client that has submitted the job reads all of its output: true.
const followedKey = "followed"

// Followed reports whether the client that has submitted the job reads all of its output. Its commands wait for the client.
func (r Record) Followed() bool {
	followed, _ := member[bool](r, followedKey)
	return followed
}

// WithFollower says that the client that submits the job reads all of its output.
func (r Record) WithFollower() Record { return r.with(followedKey, true) }
