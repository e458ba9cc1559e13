// Package kit is the only user of protoactor in lockstep: it makes actor systems, spawns
// actors, supervises them, and gives them timers.
//
// One [Env] is one actor system, that is, one node. [Env.Props] makes all props,
// [Env.SpawnRoot] spawns the top of the tree, and ctx.SpawnNamed spawns children from
// these props. An actor spawned this way can rely on the following:
//
//   - It can be addressed by name ([Env.PID]) at any time, also during its spawn: its
//     mailbox keeps messages until the actor is ready, and Started is the first message.
//   - A panic in a user message, in Started, in Terminated or in a continuation is logged
//     with its stack and passed to the supervisor. After Stopping or Restarting, panics
//     are logged and swallowed, so that the actor always stops and its watchers always
//     get Terminated.
//   - A Restart after a Stop is dropped: a stopped actor stays stopped.
//   - Messages that the actor has not handled when it stops become dead letters. A sender
//     that waits for an answer gets actor.ErrDeadLetter at once, without a timeout.
//   - Supervision is a [Policy]. A supervisor without one stops a failed child.
//   - A spawn under a name in use, or by a stopping actor, fails without running the
//     producer.
//
// An actor must itself take care of the following:
//
//   - System messages overtake user messages: Terminated may come before a result that
//     the child sent earlier. Where that matters, the actor sends itself a message on
//     Terminated and acts on that message.
//   - A name may be given to a new child only after Terminated of the old one: a child
//     spawned between the old one's end and that message is lost to its parent.
//   - After Stopping, user messages still arrive while the children stop.
//   - A panic loses the message being handled, without a notice to its sender.
//   - SetReceiveTimeout, Stash and ReenterAfter are forbidden. Use [SendAfter], [Deferred],
//     and messages with request numbers ([Asker]) instead.
package kit
