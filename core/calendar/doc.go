// Package calendar computes the times of schedules: those of a cron expression in a time zone, and those of a fixed period. It is pure
// but for LoadZone, which reads the zone data.
//
// # Which times an expression names
//
// An expression names readings of the zone's clock to the minute, as in Vixie's cron. Where day of month and day of week are both
// restricted, which a field is that does not begin with "*", one of them is enough. A reading that the clock shows once, as almost all,
// is due when the clock shows it. The clock of a zone is also set forward, which skips readings (a gap), and back, which repeats some.
// Two rules say what is due then.
//
// The hour field does not begin with "*": a reading is due when the clock shows it, or a later one, for the first time.
// So the readings of a gap are due together, once, right after it, and a repeated reading is due the first time only.
//
// The hour field begins with "*": elapsed time counts. A reading is due whenever the clock shows it, with two exceptions that keep
// the distance between two times near to what the expression says:
//
//   - After a gap. Let w be the first reading in the gap. If the clock had not been set, it would have shown w some time after the
//     gap's beginning. If the clock comes to an hour and minute of the expression later than that, the expression is due right after
//     the gap. Otherwise nothing replaces w: a skipped hour has not elapsed.
//   - While readings are repeated. If the clock had not been set, it would have come to the expression's next hour and minute after
//     some time. A repeated reading is due only from then on. So a repeated hour, which elapses twice, has its times twice, and the
//     expression "0 */3 * * *" is not due twice for 03:00.
//
// Whole hours leave "*/15 * * * *" and "30 * * * *" with their distances of 900 s and an hour. The clock of Lord Howe Island is set by
// half an hour, at 02:00: forward, "15 * * * *" is due at 01:15, right after the gap at 02:30, and at 03:15; "45 * * * *" is not in the
// gap, and due at 01:45 and 02:45. Back, "45 * * * *" is due at the first 01:45, and not at the second one, half an hour later, but at
// 02:45. A day without some hours, or a day that a zone has skipped as a whole, is a gap like others.
package calendar
