-------------------------- MODULE TraceThreadClaim --------------------------
(***************************************************************************)
(* Is what really happened something that ThreadClaim allows?              *)
(*                                                                         *)
(* A trace is a list of the actions that processes took, in the order in   *)
(* which they took effect. Each kind of event has one predicate below: the *)
(* action of the same name, for the process that the event names, with the *)
(* outcome that the event tells (token, seq, attempt, cursors). A trace is *)
(* accepted when there is a behaviour that consumes all of it; TLC tells   *)
(* how far each came. The properties that logs have are checked when all   *)
(* is consumed, since a log only grows; that the cursors only move forward *)
(* is checked of each step.                                                *)
(*                                                                         *)
(* What the stores see is an action of ThreadClaim as it stands there. Of  *)
(* what only the process itself knows (whether it wants the thread, and    *)
(* whether a look is armed), real processes do more than one thing at      *)
(* once, and act on views that are old: a second request arms the look     *)
(* that the first one took, a sweep takes a thread from a page read before.*)
(* These are the events under "A process by itself". They change nothing   *)
(* that another process could see, and they lead out of no obligation: who *)
(* holds or has released must still release, and must still read after it, *)
(* take the thread again, or arm a look.                                   *)
(*                                                                         *)
(* Fields which an event does not carry are not compared, so that a trace  *)
(* may tell less than everything. One step is silent: a take that finds    *)
(* nothing owed. Processes start down; the first event of each is its      *)
(* Restart. A process that starts sweeps by an event of its own, so the    *)
(* configuration sets Sweeps to FALSE and makes all processes Sweepers.    *)
(*                                                                         *)
(* The module TraceData is written by spec/run from files of JSON lines:   *)
(* many traces at once, as TLC takes longer to start than to follow one.   *)
(***************************************************************************)
EXTENDS ThreadClaim, TraceData

VARIABLES
    which,  \* the trace that is followed
    line    \* the event of it that comes next

Numbers == 1..Size(Traces)

ASSUME \A n \in Numbers : TLCSet(n, 1)

Trace == Traces[which]

Event == Trace[line]

Has(field) == field \in DOMAIN Event

Is(action) ==
    /\ line <= Size(Trace)
    /\ Event.action = action
    /\ line' = line + 1
    /\ which' = which

By(p) == p = Event.process

(* An event that names a session is an event of that life of the process.  *)
ByOne(p) ==
    /\ By(p)
    /\ Has("life") => process'[p].life = Event.life /\ Event.owner = p

WasLost == Has("answer") /\ Event.answer = "lost"

Told(field, value) == Has(field) => Event[field] = value

Unchanged == UNCHANGED <<exists, gone, claim, backup, row, log, spent>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* What the stores see.                                                    *)
(***************************************************************************)
IsAccept(p) ==
    Is("Accept") /\ Accept(p) /\ spent' = spent /\ ByOne(p) /\ Told("seq", Size(log'))

IsClaim(p) ==
    /\ Is("Claim") /\ ~Has("late") /\ Claim(p) /\ ByOne(p)
    /\ Told("token", claim'.token)
    /\ process'[p].at = IF WasLost THEN "want" ELSE "claimed"

(* A process whose claim got no answer makes it again in order to release  *)
(* it, or finds it made: beside whatever else it does by then.             *)
IsLateClaim(p) ==
    /\ Is("Claim") /\ Has("late") /\ By(p)
    /\ Takeable(p)
    /\ claim' = [session |-> <<Event.owner, Event.life>>, token |-> Event.token]
    /\ UNCHANGED <<process, exists, gone, backup, row, log, spent>>

IsRefused(p) ==
    \/ Is("Refused") /\ Refused(p) /\ ByOne(p)
    \/ /\ Is("Refused") /\ By(p) /\ process[p].at = "starting"
       /\ ~Takeable(p)
       /\ process' = [process EXCEPT ![p] = [Idle(@) EXCEPT !.look = TRUE]]
       /\ Unchanged

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

IsNothingOwed(p) ==
    Is("NothingOwed") /\ process[p].at = "claimed" /\ NothingOwed(p) /\ ByOne(p)

IsPark(p) ==
    /\ Is("Park") /\ Park(p) /\ ByOne(p)
    /\ Told("token", row'.token)
    /\ Told("seq", Size(log'))
    /\ process'[p].at = IF WasLost THEN "starting" ELSE "ended"

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

IsInterrupt(p) ==
    /\ Is("Interrupt") /\ Interrupt(p) /\ ByOne(p)
    /\ Told("token", process[p].token)
    /\ Told("seq", Size(log'))
    /\ Told("taken", row'.taken)

(* Refused again, a run that was refused is no other. One that asks again  *)
(* for an end whose answer was lost may find others there.                 *)
IsFenced(p) ==
    \/ Is("Fenced") /\ Fenced(p) /\ ByOne(p)
    \/ Is("Fenced") /\ ~Carries(p) /\ Adopt(p) /\ ByOne(p)
    \/ /\ Is("Fenced") /\ By(p) /\ process[p].at \in {"ended", "released"} /\ ~Carries(p)
       /\ process' = process /\ Unchanged

(* An end is also asked for again when only the read after it failed.      *)
IsAdopt(p) ==
    \/ Is("Adopt") /\ Adopt(p) /\ ByOne(p)
    \/ /\ Is("Adopt") /\ By(p) /\ process[p].at \in {"ended", "released"}
       /\ row.session = Session(p)
       /\ process' = [process EXCEPT ![p].at = "ended", ![p].token = row.token]
       /\ Unchanged

(* Who gives up an answer that was lost releases all the same, and so does *)
(* who can't go on after a claim; and a release that is tried again may be *)
(* late, and removes no claim but the very one.                            *)
IsRelease(p) ==
    LET session == <<Event.owner, Event.life>>
        mine    == session = Session(p) /\ Told("token", process[p].token)
        left    == IF claim = [session |-> session, token |-> Event.token] THEN NoClaim ELSE claim
    IN  \/ Is("Release") /\ By(p) /\ (Has("session") /\ Has("token") => mine)
           /\ Release(p)
        \/ /\ Is("Release") /\ By(p) /\ Has("session") /\ Has("token")
           /\ ~(mine /\ process[p].at \in {"ended", "running"})
           /\ process' = IF mine /\ process[p].at = "claimed"
                         THEN [process EXCEPT ![p].at = "released"]
                         ELSE process
           /\ claim' = left
           /\ UNCHANGED <<exists, gone, backup, row, log, spent>>

(* Something else that the process does may have armed a look between the  *)
(* release and the read.                                                   *)
IsHandOver(p) ==
    \/ Is("HandOver") /\ HandOver(p) /\ ByOne(p)
    \/ /\ Is("HandOver") /\ By(p) /\ process[p].at = "idle" /\ process[p].look
       /\ process' = [process EXCEPT ![p] = IF NothingLeft THEN @ ELSE Wanting(@)]
       /\ Unchanged

IsRestart(p)     == Is("Restart") /\ Restart(p) /\ ByOne(p)
IsRenew(p)       == Is("Renew") /\ Renew(p) /\ ByOne(p)
IsSessionLost(p) == Is("SessionLost") /\ SessionLost(p) /\ ByOne(p)

(* Rightly or wrongly: the observer cannot know.                           *)
IsDeclareDead ==
    /\ Is("DeclareDead")
    /\ Delete(<<Event.owner, Event.life>>)
    /\ UNCHANGED <<process, claim, backup, row, log, spent>>

(* DeathNotice, or WrongNotice. The look that follows has its own event.   *)
IsDeathNotice(p) ==
    LET session == <<Event.owner, Event.life>>
    IN  /\ Is("DeathNotice") /\ By(p)
        /\ process[p].up /\ session # Session(p)
        /\ Delete(session)
        /\ UNCHANGED <<process, claim, backup, row, log, spent>>

IsCrash(p)     == Is("Crash") /\ Crash(p) /\ By(p)
IsDrain(p)     == Is("Drain") /\ Drain(p) /\ ByOne(p)

IsClaimDeleted == Is("ClaimDeleted") /\ ClaimDeleted

(* Where the event does not say which claim it was, it is the last one.    *)
IsClaimPutBack ==
    \/ Is("ClaimPutBack") /\ ~Has("token") /\ ClaimPutBack
    \/ /\ Is("ClaimPutBack") /\ Has("token")
       /\ claim' = [session |-> <<Event.owner, Event.life>>, token |-> Event.token]
       /\ UNCHANGED <<process, exists, gone, backup, row, log, spent>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* A process by itself.                                                    *)
(***************************************************************************)
IsSweep(p) == Is("Sweep") /\ Sweep(p) /\ ByOne(p)

IsSteer(p) == Is("Steer") /\ Steer(p) /\ ByOne(p) /\ Told("seq", process'[p].offered)

(* A look that is due, whatever else the process does by then. One that    *)
(* was armed beside a take which then claimed is not forgotten for that.   *)
IsLookAgain(p) ==
    \/ Is("LookAgain") /\ LookAgain(p) /\ ByOne(p)
    \/ /\ Is("LookAgain") /\ By(p)
       /\ process[p].up /\ (process[p].look => process[p].at # "idle")
       /\ process' = [process EXCEPT ![p].look = FALSE]
       /\ Unchanged

IsLookFails(p) == Is("LookFails") /\ LookFails(p) /\ ByOne(p)
IsTakeFails(p) == Is("TakeFails") /\ TakeFails(p) /\ ByOne(p)

(* It begins to take the thread, whatever made it. Who released and rests  *)
(* has read nothing yet: this is its read after the release.               *)
IsTake(p) ==
    /\ Is("Take") /\ By(p)
    /\ process[p].up /\ process[p].at \in {"idle", "want", "released"}
    /\ process' = [process EXCEPT ![p] = [Wanting(@) EXCEPT !.look = FALSE]]
    /\ Unchanged

(* It has done what it could. A run that it ended or released and did not  *)
(* look back at is still to be looked at; a start that got no answer is    *)
(* left to whoever sweeps.                                                 *)
IsRest(p) ==
    /\ Is("Rest") /\ By(p)
    /\ process[p].up
    /\ LET at == process[p].at
       IN  process' = [process EXCEPT ![p] =
            CASE at \in {"idle", "want", "claimed", "starting"} -> Idle(@)
              [] at \in {"released", "ending"} -> [Idle(@) EXCEPT !.at = "released"]
              [] at = "ended" /\ ~Owns(p) -> [Idle(@) EXCEPT !.at = "released"]
              [] OTHER -> [@ EXCEPT !.at = "stuck"]]
       /\ process'[p].at # "stuck"
    /\ Unchanged

IsArm(p) ==
    /\ Is("Arm") /\ By(p)
    /\ process[p].up
    /\ process' = [process EXCEPT ![p] =
                    [(IF @.at = "released" THEN Idle(@) ELSE @) EXCEPT !.look = TRUE]]
    /\ Unchanged

Silent ==
    /\ line <= Size(Trace)
    /\ \E p \in Processes : process[p].at = "want" /\ NothingOwed(p)
    /\ UNCHANGED <<which, line>>

-----------------------------------------------------------------------------
(* Nothing is going on, and the thread stands as the event tells.          *)
IsAtRest ==
    /\ Is("AtRest")
    /\ Settled
    /\ \A p \in Processes : process[p].up => process[p].at \in {"idle", "want"}
    /\ Told("asked", row.asked)
    /\ Told("taken", row.taken)
    /\ Told("token", row.token)
    /\ Told("seq", Size(log))
    /\ Told("claimed", claim.session \in exists)
    /\ UNCHANGED vars

Matches ==
    \/ \E p \in Processes :
        \/ IsAccept(p) \/ IsClaim(p) \/ IsLateClaim(p) \/ IsRefused(p) \/ IsRaise(p)
        \/ IsStart(p) \/ IsNothingOwed(p) \/ IsPark(p) \/ IsAppend(p) \/ IsEnd(p)
        \/ IsInterrupt(p) \/ IsFenced(p) \/ IsAdopt(p) \/ IsRelease(p) \/ IsHandOver(p)
        \/ IsRestart(p) \/ IsRenew(p) \/ IsSessionLost(p) \/ IsCrash(p) \/ IsDrain(p)
        \/ IsSweep(p) \/ IsSteer(p) \/ IsLookAgain(p) \/ IsLookFails(p) \/ IsTakeFails(p)
        \/ IsTake(p) \/ IsRest(p) \/ IsArm(p) \/ IsDeathNotice(p)
    \/ IsDeclareDead \/ IsClaimDeleted \/ IsClaimPutBack \/ IsAtRest

LogIsSound == OneRun /\ TokensRise /\ NoStaleWrite /\ OneEnd /\ InOrder

Sound ==
    /\ row'.asked >= row.asked /\ row'.taken >= row.taken /\ row'.taken <= row'.asked
    /\ line' > Size(Trace) => LogIsSound'

(* What is printed tells how far each trace came.                          *)
Progress ==
    line' > TLCGet(which) => TLCSet(which, line') /\ PrintT(<<"consumed", which, line' - 1>>)

TraceInit ==
    /\ which \in Numbers
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
                errors |-> 0, drains |-> 0, stops |-> 0]

TraceNext ==
    \/ Matches /\ Sound /\ Progress
    \/ Silent

TraceSpec == TraceInit /\ [][TraceNext]_<<vars, which, line>>
=============================================================================
