package login

import (
	"context"
	"errors"
	"fmt"
	accounts "os/user"
	"strconv"

	"lockstep/core/access"
)

// FindAccount returns the uid of an account of the machine. known is false if there is no such account. An error says why that cannot be
// told now.
type FindAccount func(ctx context.Context, name string) (uid int, known bool, err error)

// accountOfMachine is the FindAccount of the accounts that this process can look up by itself.
func accountOfMachine(_ context.Context, name string) (uid int, known bool, err error) {
	found, err := accounts.Lookup(name)
	if _, unknown := errors.AsType[accounts.UnknownUserError](err); unknown {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	uid, err = strconv.Atoi(found.Uid)
	return uid, err == nil, err
}

// FindAccount looks up an account as submissions do.
func (l *Logins) FindAccount(ctx context.Context, name string) (uid int, known bool, err error) {
	return l.accounts(ctx, name)
}

// UseAccounts makes submissions look up accounts in another way. It is called before the first login.
func (l *Logins) UseAccounts(find FindAccount) { l.accounts = find }

// AccountError refuses a submission of a user whose account of as= cannot be used.
type AccountError struct {
	account string
	cause   error // nil: there is no such account
}

// Error is the text for the user.
func (e *AccountError) Error() string {
	if e.cause == nil {
		return fmt.Sprintf("Your jobs run as the account %s, which this machine does not have", e.account)
	}
	return fmt.Sprintf("Your jobs run as the account %s, which cannot be looked up now; try again later", e.account)
}

// Unwrap is the error of the look-up.
func (e *AccountError) Unwrap() error { return e.cause }

// Temporary reports whether the account may exist, and could not be looked up.
func (e *AccountError) Temporary() bool { return e.cause != nil }

// Submitter is the user as the sender of a submission, whose jobs run as the account of as=. It may wait for the look-up of the account.
// The error is an *AccountError.
func (l *Logins) Submitter(ctx context.Context, u User) (access.Identity, error) {
	i := u.Identity()
	if u.as == "" {
		return i, nil
	}
	uid, known, err := l.accounts(ctx, u.as)
	if err != nil || !known {
		return access.Unknown(), &AccountError{u.as, err}
	}
	i.UID, i.Name = uid, u.as
	return i, nil
}

// Commands are the commands of users of the remote API that a daemon runs.
type Commands struct {
	// OfAdmins are run as the daemon's user, if no account is named (--rapi-allow-commands).
	OfAdmins bool
	// AsAccounts are those of users with an account of as=. It is false for a daemon that runs all commands as one user.
	AsAccounts bool
}

// Problem says why a user may not submit commands; "": he may.
func (c Commands) Problem(u User) string {
	switch {
	case u.as != "" && c.AsAccounts, u.as == "" && u.role == access.Admin && c.OfAdmins:
		return ""
	case u.as != "":
		return fmt.Sprintf("%s may not submit commands: this daemon does not run them as %s, as the users file says", u.name, u.as)
	case u.role == access.Admin:
		return u.name + " may not submit commands: lockstepd --rapi-allow-commands permits it, or as=ACCOUNT in the users file"
	}
	return u.name + " may not submit commands: the users file needs as=ACCOUNT, the account as which they run"
}
