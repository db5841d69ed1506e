-------------------------- MODULE TraceThreadClaim --------------------------
(***************************************************************************)
(* Is what really happened something that ThreadClaim allows?              *)
(*                                                                         *)
(* A trace is a list of the actions that processes took, in the order in   *)
(* which they took effect. Each kind of event has one predicate below: the *)
(* action of the same name, for the process that the event names, with the *)
(* outcome that the event tells (token, seq, attempt, cursors). The trace  *)
(* is accepted when there is a behaviour of ThreadClaim that consumes all  *)
(* of it; TLC then reports that Unconsumed is violated, and by no other    *)
(* report. The other invariants are checked on the way.                    *)
(*                                                                         *)
(* Fields which an event does not carry are not compared, so that a trace  *)
(* may tell less than everything. One step is silent: a take that finds    *)
(* nothing owed. Processes start down; the first event of each is its      *)
(* Restart. A process that starts sweeps by an event of its own, so the    *)
(* configuration sets Sweeps to FALSE and makes all processes Sweepers.    *)
(*                                                                         *)
(* The module TraceData is written by spec/run from a file of JSON lines.  *)
(***************************************************************************)
EXTENDS ThreadClaim, TraceData, TLC

VARIABLE line   \* the event that comes next

ASSUME TLCSet(1, 0)

Event == Trace[line]

Has(field) == field \in DOMAIN Event

Is(action) ==
    /\ line <= Size(Trace)
    /\ Event.action = action
    /\ line' = line + 1

(* An event that names a session is an event of that life of the process.  *)
ByOne(p) ==
    /\ p = Event.process
    /\ Has("life") => process'[p].life = Event.life

WasLost == Has("answer") /\ Event.answer = "lost"

Told(field, value) == Has(field) => Event[field] = value

IsAccept(p) ==
    Is("Accept") /\ Accept(p) /\ ByOne(p) /\ Told("seq", Size(log'))

IsClaim(p) ==
    /\ Is("Claim") /\ Claim(p) /\ ByOne(p)
    /\ Told("token", claim'.token)
    /\ process'[p].at = IF WasLost THEN "want" ELSE "claimed"

IsRefused(p) ==
    Is("Refused") /\ Refused(p) /\ ByOne(p)

IsLookAgain(p) ==
    Is("LookAgain") /\ LookAgain(p) /\ ByOne(p)

IsRaise(p) ==
    Is("Raise") /\ Raise(p) /\ ByOne(p) /\ Told("token", process'[p].token)

IsStart(p) ==
    /\ Is("Start") /\ Start(p) /\ ByOne(p)
    /\ Told("token", row'.token)
    /\ Told("seq", Size(log'))
    /\ Told("attempt", row'.attempts)
    /\ Told("taken", row'.taken)
    /\ Told("abandoned", IF row.open = NoRun THEN 0 ELSE row.open.run)
    /\ process'[p].at = IF WasLost THEN "starting" ELSE "running"

IsPark(p) ==
    /\ Is("Park") /\ Park(p) /\ ByOne(p)
    /\ Told("token", row'.token)
    /\ Told("seq", Size(log'))
    /\ process'[p].at = IF WasLost THEN "starting" ELSE "ended"

IsSteer(p) ==
    Is("Steer") /\ Steer(p) /\ ByOne(p) /\ Told("seq", process'[p].offered)

IsAppend(p) ==
    /\ Is("Append") /\ Append(p) /\ ByOne(p)
    /\ Told("token", process[p].token)
    /\ Told("seq", Size(log'))

IsEnd(p) ==
    /\ Is("End") /\ End(p) /\ ByOne(p)
    /\ Told("token", process[p].token)
    /\ Told("seq", Size(log'))
    /\ Told("taken", row'.taken)
    /\ process'[p].at = IF WasLost THEN "ending" ELSE "ended"

IsFenced(p)   == Is("Fenced") /\ Fenced(p) /\ ByOne(p)
IsAdopt(p)    == Is("Adopt") /\ Adopt(p) /\ ByOne(p)
IsRelease(p)  == Is("Release") /\ Release(p) /\ ByOne(p)
IsHandOver(p) == Is("HandOver") /\ HandOver(p) /\ ByOne(p)

IsRestart(p)     == Is("Restart") /\ Restart(p) /\ ByOne(p)
IsSweep(p)       == Is("Sweep") /\ Sweep(p) /\ ByOne(p)
IsRenew(p)       == Is("Renew") /\ Renew(p) /\ ByOne(p)
IsSessionLost(p) == Is("SessionLost") /\ SessionLost(p) /\ ByOne(p)

(* Rightly or wrongly: the observer cannot know.                           *)
IsDeclareDead ==
    /\ Is("DeclareDead")
    /\ Delete(<<Event.owner, Event.life>>)
    /\ UNCHANGED <<process, claim, backup, row, log, spent>>

IsCrash(p)     == Is("Crash") /\ Crash(p) /\ p = Event.process
IsDrain(p)     == Is("Drain") /\ Drain(p) /\ ByOne(p)
IsLookFails(p) == Is("LookFails") /\ LookFails(p) /\ ByOne(p)

IsClaimDeleted == Is("ClaimDeleted") /\ ClaimDeleted
IsClaimPutBack == Is("ClaimPutBack") /\ ClaimPutBack

Silent ==
    /\ line <= Size(Trace)
    /\ \E p \in Processes : NothingOwed(p)
    /\ line' = line

Matches ==
    \/ \E p \in Processes :
        \/ IsAccept(p) \/ IsClaim(p) \/ IsRefused(p) \/ IsLookAgain(p) \/ IsRaise(p)
        \/ IsStart(p) \/ IsPark(p) \/ IsSteer(p) \/ IsAppend(p) \/ IsEnd(p)
        \/ IsFenced(p) \/ IsAdopt(p) \/ IsRelease(p) \/ IsHandOver(p)
        \/ IsRestart(p) \/ IsSweep(p) \/ IsRenew(p) \/ IsSessionLost(p)
        \/ IsCrash(p) \/ IsDrain(p) \/ IsLookFails(p)
    \/ IsDeclareDead \/ IsClaimDeleted \/ IsClaimPutBack

(* What is printed tells how far a trace came that is refused.             *)
Progress ==
    line > TLCGet(1) => TLCSet(1, line) /\ PrintT(<<"consumed", line>>)

TraceInit ==
    /\ line = 1
    /\ process = [p \in Processes |->
                    [up |-> FALSE, life |-> 0, at |-> "idle", look |-> FALSE,
                     token |-> 0, seen |-> 0, view |-> {},
                     run |-> 0, from |-> 0, offered |-> 0]]
    /\ exists = {}
    /\ gone = {}
    /\ claim = NoClaim
    /\ backup = NoClaim
    /\ row = [asked |-> 0, taken |-> 0, token |-> 0, session |-> Nobody,
              open |-> NoRun, turn |-> 0, due |-> FALSE, attempts |-> 0]
    /\ log = << >>
    /\ spent = [crashes |-> 0, faults |-> 0, lost |-> 0, deleted |-> 0,
                errors |-> 0, drains |-> 0]

TraceNext ==
    \/ Matches /\ Progress
    \/ Silent

TraceSpec == TraceInit /\ [][TraceNext]_<<vars, line>>

Unconsumed == line <= Size(Trace)
=============================================================================
