// Package kit is the only way from lockstep to protoactor: it makes actor
// systems, spawns actors, supervises them, and gives them time.
//
// One [Env] stands for one actor system, that is, one node. [Env.Props] is the
// only maker of props, [Env.SpawnRoot] starts the top of the tree, children are
// started with ctx.SpawnNamed and props made here. What an actor gets that way:
//
//   - It may be addressed by name ([Env.PID]) at any time, also while it is being
//     spawned: its mailbox holds messages back until the actor is wired up, and
//     Started is the first message it handles.
//   - A panic in a user message, in Started, in Terminated or in a continuation
//     is logged with its stack and handed to the supervisor. Once an instance has
//     been told Stopping or Restarting its panics are logged and swallowed, so
//     that stopping always ends and nobody waits for a Terminated that never comes.
//   - A Restart that arrives after a Stop is dropped: what was stopped stays so.
//   - What an actor had not handled when it stopped becomes dead letters; whoever
//     asked hears actor.ErrDeadLetter at once instead of running into a timeout.
//   - Supervision is a [Policy]. An actor whose props name none stops a child
//     that fails.
//   - A name is taken until its actor has stopped, and an actor that is leaving
//     spawns nothing; in both cases the producer is not run.
//
// What the package cannot do for an actor:
//
//   - System messages overtake user messages: Terminated may come before a result
//     that the child sent earlier. An actor that cares sends itself a message on
//     Terminated and acts on that one.
//   - A name may be given to a new child once Terminated of the old one has been
//     received, not before: a child spawned between the old one's end and that
//     message is forgotten by its parent.
//   - After Stopping, user messages still arrive while children stop.
//   - A panic loses the message in hand; its sender is not told.
//   - SetReceiveTimeout, Stash and ReenterAfter are not to be used; [SendAfter],
//     a slice of messages, and plain messages with numbers take their place.
package kit
