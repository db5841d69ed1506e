---------------------------- MODULE ThreadClaim ----------------------------
(***************************************************************************)
(* What was asked is taken.                                                *)
(*                                                                         *)
(* People send messages to a thread; processes (runners) take turns on it, *)
(* one at a time. Any process may die at any moment, may be declared dead  *)
(* while it lives, and may never learn whether its last write was done.    *)
(* This module specifies the protocol by which every message is            *)
(* nevertheless consumed by exactly one turn, without anybody looking      *)
(* after it.                                                               *)
(*                                                                         *)
(* Three stores share the work, and each is trusted with one thing only.   *)
(*                                                                         *)
(*  - SESSIONS say who is there. A session is one life of one process. It  *)
(*    is opened once and ends once; what is gone never comes back. So      *)
(*    whoever has once seen that a session is gone may act upon it for     *)
(*    ever, and the whole question of takeover becomes "does it exist?".   *)
(*                                                                         *)
(*  - The CLAIM says whose turn it is. One object for the thread; it       *)
(*    stands while its session exists and it is not released. It keeps     *)
(*    others from trying. It proves nothing: it may be taken from a        *)
(*    process that lives, or be deleted or put back by hand.               *)
(*                                                                         *)
(*  - The JOURNAL decides. It holds the log, the cursors asked and taken,  *)
(*    and a fence: the greatest token that ever opened the thread and the  *)
(*    session that brought it. A claim opens the thread with a token       *)
(*    greater than the fence, and each later write must carry that very    *)
(*    pair, checked in the same transaction. A process that lost its claim *)
(*    without knowing can thus do no harm: at most, it works in vain.      *)
(*                                                                         *)
(* The fence gives safety; a message could still be left lying. A process  *)
(* that finds the claim taken is refused and walks away, trusting the      *)
(* holder; and the holder may be dead already, or about to finish without  *)
(* having seen the new message. Four habits close these holes, and none of *)
(* them can be spared (folder refutations shows it, one file for each):    *)
(*                                                                         *)
(*  - hand-over: whoever releases reads the cursors after the release.     *)
(*    Before it, the refused would still be trusting a holder that has     *)
(*    already looked for the last time;                                    *)
(*  - look: whoever was refused looks again when the holder is gone, until *)
(*    nothing is left. It closes the hole of a holder that dies while      *)
(*    another process waits;                                               *)
(*  - sweep: whoever starts takes what the journal says is owed, waiting   *)
(*    (by a look) where the last runner's session still exists. It closes  *)
(*    the hole of a process that dies alone;                               *)
(*  - a process that lost its session looks again at what it was running,  *)
(*    as nobody else may know of it.                                       *)
(*                                                                         *)
(* The schedule of sweeps (constant Sweepers) heals what remains: a look   *)
(* that failed, and a claim that stands by no work of its owner, as when   *)
(* an old claim object is put back by hand.                                *)
(*                                                                         *)
(* Threads are independent but for the sessions, so one thread is          *)
(* modelled. Time is not: that a timer fires late or early is the same as  *)
(* the step being taken late or early, and fairness says it is taken at    *)
(* last. A step of this specification is one transaction or one            *)
(* conditional write; all that happens between two is up to the scheduler. *)
(* README.md says what else is left out.                                   *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, Entries, TLC

CONSTANTS
    Processes,      \* the runners
    Sweepers,       \* those that are asked to sweep on a schedule
    Messages,       \* how many messages are sent in all
    Events,         \* how many events a run may write
    MaxAttempts,    \* runs of one turn, after which it is parked
    \* How often the environment does harm, in all:
    Crashes,        \* a process dies; its session is left behind
    Faults,         \* a session is declared dead while its process lives
    FaultsBy,       \* ... by whom: some of "timer" and "notice", a wrong one
    Lost,           \* a write is done, and its answer lost
    Deleted,        \* the claim object is deleted by hand
    PutBack,        \* may such an object be put back (BOOLEAN)
    LookErrors,     \* a look or a take fails on a storage error
    Drains          \* a run is interrupted, and a process stopped in order

(***************************************************************************)
(* The guards: TRUE in the protocol. Each file in the folder refutations   *)
(* sets one of them to FALSE, and TLC must find what then goes wrong.      *)
(***************************************************************************)
CONSTANTS
    Looks,              \* a refused claimant looks again
    Sweeps,             \* a process sweeps when it starts
    FencesWrites,       \* the journal checks who writes
    FencesSession,      \* ... and compares the session too, not the token alone
    TokenFromJournal,   \* a new token exceeds the journal's, not just the claim's
    ReadsAfterRelease,  \* the hand-over
    ReleasesRefused,    \* a run that the journal refuses gives up its claim
    LooksWhenLost,      \* a process that lost its session looks again
    SweepsHeld,         \* a sweep minds threads whose runner's session exists
    ReadsAfresh,        \* a session's absence is read afresh before a takeover
    GoneForGood,        \* a session that was declared dead cannot be renewed
    CountsFirst,        \* the attempt is counted before it is made
    TakesWhenUsed,      \* steering counts as taken when used, not when offered
    AbandonsOpen,       \* a run that was left open is ended by the next start
    OwesUnfinished,     \* a turn whose last run was interrupted is still owed
    TimesOut            \* a session lapses though nobody gives notice of its end

ASSUME /\ Sweepers \subseteq Processes
       /\ {Messages, Events, MaxAttempts} \subseteq Nat
       /\ {Crashes, Faults, Lost, Deleted, LookErrors, Drains} \subseteq Nat
       /\ FaultsBy \subseteq {"timer", "notice"}
       /\ {PutBack, Looks, Sweeps, FencesWrites, FencesSession, TokenFromJournal,
           ReadsAfterRelease, ReleasesRefused, LooksWhenLost, SweepsHeld,
           ReadsAfresh, GoneForGood, CountsFirst, TakesWhenUsed, AbandonsOpen,
           OwesUnfinished, TimesOut} \subseteq BOOLEAN

VARIABLES
    process,    \* what each process knows; all of it is lost in a crash
    exists,     \* the sessions that exist
    gone,       \* the sessions that somebody saw deleted
    claim,      \* the thread's claim object, or NoClaim
    backup,     \* a claim object that was deleted by hand, or NoClaim
    row,        \* the journal's row of the thread
    log,        \* the journal's entries of the thread; seq is the position
    spent       \* how much harm the environment has done

vars == <<process, exists, gone, claim, backup, row, log, spent>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* Words.                                                                  *)
(***************************************************************************)
Nobody   == <<"nobody", 0>>
NoClaim  == [session |-> Nobody, token |-> 0]
NoRun    == [session |-> Nobody, token |-> 0, run |-> 0]

Session(p) == <<p, process[p].life>>

Max(a, b) == IF a > b THEN a ELSE b

MessagesIn(low, high) == {n \in (low + 1)..high : log[n].kind = "message"}

Sent == MessagesIn(0, Size(log))

Terminals == {"ended", "interrupted", "abandoned"}

(* Nothing is left to do for anybody. While anything is left, whether      *)
(* somebody is at it is for the claim to say.                              *)
Settled == row.asked = row.taken /\ ~row.due

(* The same, as the processes judge it.                                    *)
NothingLeft ==
    IF OwesUnfinished THEN Settled ELSE row.asked = row.taken /\ row.open = NoRun

(* A run is open, and its session exists.                                  *)
Held == row.open # NoRun /\ row.open.session \in exists

(* An old view of "gone" is always right. An old view of "not there" is    *)
(* not: it may be older than the session.                                  *)
Absent(p, session) ==
    IF ReadsAfresh
    THEN session \notin exists \/ session \in gone
    ELSE session \notin process[p].view

Owns(p) == claim.session = Session(p)

Takeable(p) == claim = NoClaim \/ Owns(p) \/ Absent(p, claim.session)

(* What the journal checks in the transaction of each write. A claim opens *)
(* the thread with a greater token; what follows carries that very pair.   *)
Opens(p) ==
    \/ ~FencesWrites
    \/ process[p].token > row.token
    \/ ~FencesSession /\ process[p].token = row.token

Carries(p) ==
    \/ ~FencesWrites
    \/ /\ process[p].token = row.token
       /\ FencesSession => Session(p) = row.session

(* What a process knows at different times. What it needs no more is reset,*)
(* so that states which do not differ are not told apart.                  *)
Idle(me) ==
    [me EXCEPT !.at = "idle", !.token = 0, !.seen = 0, !.view = {},
               !.run = 0, !.from = 0, !.offered = 0]

Wanting(me) ==
    [Idle(me) EXCEPT !.at = "want", !.seen = row.token,
                     !.view = IF ReadsAfresh THEN {} ELSE exists]

Holding == {"claimed", "starting", "running", "ending", "ended", "released"}

(* The answer of a write that was done may be lost, within the budget.     *)
Answered(p, next, unsure) ==
    \/ process' = [process EXCEPT ![p] = next] /\ spent' = spent
    \/ /\ spent.lost < Lost
       /\ process' = [process EXCEPT ![p].at = unsure]
       /\ spent' = [spent EXCEPT !.lost = @ + 1]

Entry(kind, p, run, turn, takes, opens) ==
    [kind |-> kind, token |-> process[p].token, session |-> Session(p),
     run |-> run, turn |-> turn, takes |-> takes, opens |-> opens]

Message ==
    [kind |-> "message", token |-> 0, session |-> Nobody,
     run |-> 0, turn |-> 0, takes |-> {}, opens |-> FALSE]

-----------------------------------------------------------------------------
Init ==
    /\ process = [p \in Processes |->
                    [up |-> TRUE, life |-> 1, at |-> "idle", look |-> FALSE,
                     token |-> 0, seen |-> 0, view |-> {},
                     run |-> 0, from |-> 0, offered |-> 0]]
    /\ exists = {<<p, 1>> : p \in Processes}
    /\ gone = {}
    /\ claim = NoClaim
    /\ backup = NoClaim
    /\ row = [asked |-> 0, taken |-> 0, token |-> 0, session |-> Nobody,
              open |-> NoRun, turn |-> 0, due |-> FALSE, attempts |-> 0]
    /\ log = << >>
    /\ spent = [crashes |-> 0, faults |-> 0, lost |-> 0, deleted |-> 0,
                errors |-> 0, drains |-> 0, stops |-> 0]

-----------------------------------------------------------------------------
(***************************************************************************)
(* System actions: taking a thread.                                        *)
(***************************************************************************)

(* The take finds nothing to do: when it reads the cursors, or only once   *)
(* it has claimed. A claim that stands in its name, as it was just made or *)
(* an answer was lost on the way, is released like any other.              *)
NothingOwed(p) ==
    /\ \/ process[p].at = "want"
       \/ process[p].at = "claimed" /\ Opens(p)
    /\ NothingLeft
    /\ process' = [process EXCEPT ![p] =
                    IF @.at = "claimed"
                    THEN [@ EXCEPT !.at = "ended"]
                    ELSE IF Owns(p)
                    THEN [Idle(@) EXCEPT !.at = "ended", !.token = claim.token]
                    ELSE [Idle(@) EXCEPT !.look = FALSE]]
    /\ UNCHANGED <<exists, gone, claim, backup, row, log, spent>>

(* The claim is created, or replaced at the version that was read. The     *)
(* row was read some time since the process wanted the thread, so it may   *)
(* be old: Raise or Fenced sees to the token, NothingOwed to a turn that   *)
(* somebody has taken meanwhile. A claim of this very session is           *)
(* this process's own, from a write whose answer was lost: it is adopted   *)
(* as it stands, or replaced.                                              *)
NewTokens(p) ==
    {Max(IF TokenFromJournal THEN read ELSE 0, claim.token) + 1 :
        read \in {process[p].seen, row.token}}

Claim(p) ==
    /\ process[p].at = "want"
    /\ Takeable(p)
    /\ \E token \in NewTokens(p) \cup (IF Owns(p) THEN {claim.token} ELSE {}) :
        /\ claim' = [session |-> Session(p), token |-> token]
        /\ Answered(p,
                    [Idle(process[p]) EXCEPT !.at = "claimed", !.token = token,
                                             !.look = FALSE],
                    "want")
    /\ UNCHANGED <<exists, gone, backup, row, log>>

(* Busy: a claim stands, or the row says that a session which exists runs  *)
(* the thread, so that no claim need be tried. One look is armed.          *)
Refused(p) ==
    /\ process[p].at = "want"
    /\ \/ ~Takeable(p)
       \/ Held /\ row.open.session # Session(p)
    /\ process' = [process EXCEPT ![p] = [Idle(@) EXCEPT !.look = Looks]]
    /\ UNCHANGED <<exists, gone, claim, backup, row, log, spent>>

(* The look. One that would be refused again changes nothing but the time, *)
(* so only those that find something count as steps (see LookFinds).       *)
LookAgain(p) ==
    /\ process[p].up
    /\ process[p].look
    /\ process[p].at = "idle"
    /\ process' = [process EXCEPT ![p] =
                    [(IF NothingLeft THEN Idle(@) ELSE Wanting(@))
                        EXCEPT !.look = FALSE]]
    /\ UNCHANGED <<exists, gone, claim, backup, row, log, spent>>

LookFinds(p) ==
    \/ NothingLeft
    \/ claim = NoClaim \/ Owns(p) \/ claim.session \notin exists

(* The journal has seen a greater token, or this one from another session. *)
(* The holder raises its own claim above it and tries again; if the claim  *)
(* is not its own any more, it starts over. (It may as well release it and *)
(* claim anew, which is Fenced.)                                           *)
Raise(p) ==
    /\ process[p].at = "claimed"
    /\ ~Opens(p)
    /\ TokenFromJournal /\ ReleasesRefused
    /\ IF Owns(p)
       THEN /\ claim' = [claim EXCEPT !.token = Max(@, row.token) + 1]
            /\ process' = [process EXCEPT ![p].token = claim'.token]
       ELSE /\ claim' = claim
            /\ process' = [process EXCEPT ![p] = Wanting(@)]
    /\ UNCHANGED <<exists, gone, backup, row, log, spent>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* System actions: a turn. Each is one transaction of the journal.         *)
(***************************************************************************)
MayOpen(p) ==
    \/ process[p].at = "claimed" /\ Opens(p)
    \/ process[p].at = "ended" /\ Carries(p)

(* A run that an earlier token left open is ended as abandoned, whether    *)
(* its process died of it or lives and lost its claim.                     *)
Closed(p) ==
    IF AbandonsOpen /\ row.open # NoRun
    THEN << Entry("abandoned", p, row.open.run, row.turn, {}, FALSE) >>
    ELSE << >>

Opening(p, due, turn, attempts, taken, open) ==
    row' = [row EXCEPT !.token = process[p].token, !.session = Session(p),
                       !.due = due, !.turn = turn, !.attempts = attempts,
                       !.taken = taken, !.open = open]

(* The token is checked, the run that was left open is abandoned, the      *)
(* attempt counted, the prompts consumed, and run_started written: all in  *)
(* one transaction. Another run of a turn that is due consumes nothing.    *)
Start(p) ==
    /\ MayOpen(p)
    /\ ~NothingLeft
    /\ row.due => row.attempts < MaxAttempts
    /\ LET taken == IF row.due THEN row.taken ELSE row.asked
           turn  == IF row.due THEN row.turn ELSE row.turn + 1
           count == (IF row.due THEN row.attempts ELSE 0) + (IF CountsFirst THEN 1 ELSE 0)
           run   == Size(log) + Size(Closed(p)) + 1
       IN  /\ Opening(p, TRUE, turn, count, taken,
                      [session |-> Session(p), token |-> process[p].token, run |-> run])
           /\ log' = After(log, After(Closed(p),
                      << Entry("started", p, run, turn, MessagesIn(row.taken, taken),
                               process[p].at = "claimed") >>))
           /\ Answered(p, [process[p] EXCEPT !.at = "running", !.run = run,
                                             !.from = taken, !.offered = taken],
                       "starting")
    /\ UNCHANGED <<exists, gone, claim, backup>>

(* The turn has had its attempts. It is put aside with a plain reason, and *)
(* what was sent after it runs.                                            *)
Park(p) ==
    /\ MayOpen(p)
    /\ ~NothingLeft
    /\ row.due /\ row.attempts >= MaxAttempts
    /\ Opening(p, FALSE, row.turn, 0, row.taken, NoRun)
    /\ log' = After(log, After(Closed(p),
                << Entry("parked", p, 0, row.turn, {}, process[p].at = "claimed") >>))
    /\ Answered(p, [process[p] EXCEPT !.at = "ended"], "starting")
    /\ UNCHANGED <<exists, gone, claim, backup>>

(* What was sent meanwhile is offered to the run, up to the newest that    *)
(* the holder has read of; whether the handler uses it is known at the end.*)
Steer(p) ==
    /\ process[p].at = "running"
    /\ \E seq \in MessagesIn(process[p].offered, row.asked) :
        /\ process' = [process EXCEPT ![p].offered = seq]
        /\ row' = IF TakesWhenUsed THEN row ELSE [row EXCEPT !.taken = seq]
    /\ UNCHANGED <<exists, gone, claim, backup, log, spent>>

(* An event of the handler is an entry.                                    *)
Append(p) ==
    /\ process[p].at = "running"
    /\ Carries(p)
    /\ Cardinality({n \in 1..Size(log) : log[n].kind = "event"
                                         /\ log[n].run = process[p].run}) < Events
    /\ log' = After(log, << Entry("event", p, process[p].run, row.turn, {}, FALSE) >>)
    /\ UNCHANGED <<process, exists, gone, claim, backup, row, spent>>

(* The run ends, and taken moves over the steering that was really used:   *)
(* none of it, or what was offered up to some message.                     *)
EndUsing(p, used) ==
    /\ process[p].at = "running"
    /\ Carries(p)
    /\ log' = After(log, << Entry("ended", p, process[p].run, row.turn,
                                  MessagesIn(process[p].from, used), FALSE) >>)
    /\ row' = [row EXCEPT !.taken = Max(@, used), !.open = NoRun, !.due = FALSE,
                          !.attempts = IF CountsFirst THEN 0 ELSE @ + 1]
    /\ Answered(p, [process[p] EXCEPT !.at = "ended", !.run = 0, !.from = 0, !.offered = 0],
                "ending")
    /\ UNCHANGED <<exists, gone, claim, backup>>

End(p) ==
    \E used \in {process[p].from} \cup MessagesIn(process[p].from, process[p].offered) :
        EndUsing(p, used)

(* The journal refuses a run's write, or an opening that is not raised.    *)
(* The run ends like any other: release, then hand-over.                   *)
Fenced(p) ==
    /\ \/ process[p].at = "running" /\ ~Carries(p)
       \/ process[p].at = "claimed" /\ ~Opens(p)
    /\ process' = [process EXCEPT ![p] =
                    IF ReleasesRefused
                    THEN [Idle(@) EXCEPT !.at = "ended", !.token = process[p].token]
                    ELSE Idle(@)]
    /\ UNCHANGED <<exists, gone, claim, backup, row, log, spent>>

(* A lost answer is unknown, not failed: the journal is read again, and    *)
(* what is one's own is adopted.                                           *)
Adopt(p) ==
    /\ process[p].at \in {"starting", "ending"}
    /\ LET mine == row.token = process[p].token /\ row.session = Session(p)
       IN  process' = [process EXCEPT ![p] =
                IF mine /\ process[p].at = "starting" /\ row.open # NoRun
                THEN [@ EXCEPT !.at = "running", !.run = row.open.run,
                               !.from = row.taken, !.offered = row.taken]
                ELSE [Idle(@) EXCEPT !.at = "ended", !.token = process[p].token]]
    /\ UNCHANGED <<exists, gone, claim, backup, row, log, spent>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* System actions: giving the thread up.                                   *)
(***************************************************************************)

(* A release never removes another's claim, and need not remove an old one *)
(* of its own session that was put back by hand. It may rest on a view of  *)
(* the cursors that is old already: a message may have come since.         *)
Release(p) ==
    /\ process[p].at = "ended"
    /\ claim' \in IF ~Owns(p) THEN {claim}
                  ELSE IF claim.token = process[p].token THEN {NoClaim}
                  ELSE {NoClaim, claim}
    /\ process' = [process EXCEPT ![p] =
                    IF ReadsAfterRelease THEN [Idle(@) EXCEPT !.at = "released"] ELSE Idle(@)]
    /\ UNCHANGED <<exists, gone, backup, row, log, spent>>

(* The cursors are read after the release. If anything is left, the thread *)
(* is taken again, or its taker refused, like any other.                   *)
HandOver(p) ==
    /\ process[p].at = "released"
    /\ process' = [process EXCEPT ![p] = IF NothingLeft THEN Idle(@) ELSE Wanting(@)]
    /\ UNCHANGED <<exists, gone, claim, backup, row, log, spent>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* System actions: sessions and sweeps.                                    *)
(***************************************************************************)
Finds == ~NothingLeft /\ (SweepsHeld \/ ~Held)

(* A new life is a new session. It sweeps.                                 *)
Restart(p) ==
    /\ ~process[p].up
    /\ process' = [process EXCEPT ![p] =
                    [(IF Sweeps /\ Finds THEN Wanting(@) ELSE Idle(@))
                        EXCEPT !.up = TRUE, !.life = @ + 1]]
    /\ exists' = exists \cup {<<p, process[p].life + 1>>}
    /\ UNCHANGED <<gone, claim, backup, row, log, spent>>

(* The sweep that is due on a schedule. A thread on which a look is armed  *)
(* needs no other.                                                         *)
Sweep(p) ==
    /\ process[p].up
    /\ p \in Sweepers
    /\ process[p].at = "idle" /\ ~process[p].look
    /\ Finds
    /\ process' = [process EXCEPT ![p] = Wanting(@)]
    /\ UNCHANGED <<exists, gone, claim, backup, row, log, spent>>

Delete(session) ==
    /\ session \in exists
    /\ exists' = exists \ {session}
    /\ gone' = gone \cup {session}

(* A session whose process is gone is declared dead by anybody who is      *)
(* there, once its timer ran out.                                          *)
Stale == {s \in exists : ~process[s[1]].up \/ process[s[1]].life # s[2]}

DeclareDead ==
    /\ TimesOut
    /\ \E p \in Processes : process[p].up
    /\ \E session \in Stale : Delete(session)
    /\ UNCHANGED <<process, claim, backup, row, log, spent>>

(* A process is told that a session's process is gone, well before any     *)
(* timer: it held a connection, which closed. It declares the session dead *)
(* by the same deletion, and looks at once at what that session ran. That  *)
(* a notice is lost is always possible, as nothing is assumed of this step *)
(* and DeclareDead is behind it. A late one is the step taken late: what   *)
(* is gone by then is not deleted again, and who was gone stays gone.      *)
TakesNotice(p, session) ==
    /\ process[p].up /\ session # Session(p)
    /\ Delete(session)
    /\ process' = [process EXCEPT ![p].look = @ \/ (Looks /\ row.open.session = session)]
    /\ UNCHANGED <<claim, backup, row, log>>

DeathNotice(p) ==
    /\ \E session \in Stale : TakesNotice(p, session)
    /\ spent' = spent

(* A renewal is a sign of life, and nothing else: it succeeds only while   *)
(* the session exists.                                                     *)
Renew(p) ==
    /\ process[p].up
    /\ IF GoneForGood
       THEN Session(p) \in exists /\ exists' = exists
       ELSE exists' = exists \cup {Session(p)}
    /\ UNCHANGED <<process, gone, claim, backup, row, log, spent>>

(* A process finds its session gone, or could not renew it in time by its  *)
(* own clock. It drops its run, opens a new session and looks again at     *)
(* what it was running.                                                    *)
SessionLost(p) ==
    /\ process[p].up
    /\ \/ Session(p) \notin exists /\ spent' = spent
       \/ /\ Session(p) \in exists /\ spent.faults < Faults
          /\ spent' = [spent EXCEPT !.faults = @ + 1]
    /\ process' = [process EXCEPT ![p] =
                    [(IF process[p].at = "want" THEN @ ELSE Idle(@))
                        EXCEPT !.life = @ + 1,
                               !.look = @ \/ (LooksWhenLost /\ process[p].at \in Holding)]]
    /\ exists' = exists \cup {<<p, process[p].life + 1>>}
    /\ UNCHANGED <<gone, claim, backup, row, log>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* Environment actions: people who send, and what goes wrong.              *)
(***************************************************************************)

(* The message is appended and asked moves, in one transaction; only then  *)
(* is it accepted. A process that is at work on the thread finds it there; *)
(* one that is idle tries to take the thread, if it lives that long and    *)
(* hears that it was accepted.                                             *)
Accept(p) ==
    /\ process[p].up
    /\ Cardinality(Sent) < Messages
    /\ log' = After(log, << Message >>)
    /\ row' = [row EXCEPT !.asked = Size(log) + 1]
    /\ \/ /\ process' = IF process[p].at = "idle"
                        THEN [process EXCEPT ![p] = Wanting(@)]
                        ELSE process
          /\ spent' = spent
       \/ /\ spent.lost < Lost
          /\ process' = process
          /\ spent' = [spent EXCEPT !.lost = @ + 1]
    /\ UNCHANGED <<exists, gone, claim, backup>>

(* All that a process knows is lost. Its session stays behind.             *)
Crash(p) ==
    /\ spent.crashes < Crashes
    /\ process[p].up
    /\ process' = [process EXCEPT ![p] = [Idle(@) EXCEPT !.up = FALSE, !.look = FALSE]]
    /\ spent' = [spent EXCEPT !.crashes = @ + 1]
    /\ UNCHANGED <<exists, gone, claim, backup, row, log>>

(* A session is declared dead, and its process lives: it stalled, or was   *)
(* cut off.                                                                *)
Fault(p) ==
    /\ spent.faults < Faults /\ "timer" \in FaultsBy
    /\ process[p].up
    /\ Delete(Session(p))
    /\ spent' = [spent EXCEPT !.faults = @ + 1]
    /\ UNCHANGED <<process, claim, backup, row, log>>

(* A process is told that a session is gone whose process lives: something *)
(* between the two refuses connections. It does as in DeathNotice.         *)
WrongNotice(p) ==
    /\ spent.faults < Faults /\ "notice" \in FaultsBy
    /\ \E session \in exists \ Stale : TakesNotice(p, session)
    /\ spent' = [spent EXCEPT !.faults = @ + 1]

(* A run is cut short by its own process, which is being stopped, or has   *)
(* lost its session and can still write: this is not charged to the turn.  *)
(* Steering that the handler has used by then stays used.                  *)
InterruptUsing(p, used) ==
    /\ spent.drains < Drains
    /\ process[p].at = "running"
    /\ Carries(p)
    /\ log' = After(log, << Entry("interrupted", p, process[p].run, row.turn,
                                  MessagesIn(process[p].from, used), FALSE) >>)
    /\ row' = [row EXCEPT !.taken = Max(@, used), !.open = NoRun, !.attempts = @ - 1]
    /\ process' = [process EXCEPT ![p] =
                    [Idle(@) EXCEPT !.at = "ended", !.token = process[p].token]]
    /\ spent' = [spent EXCEPT !.drains = @ + 1]
    /\ UNCHANGED <<exists, gone, claim, backup>>

Interrupt(p) ==
    \E used \in {process[p].from} \cup MessagesIn(process[p].from, process[p].offered) :
        InterruptUsing(p, used)

(* An orderly stop: what ran was interrupted and released before, and no   *)
(* hand-over follows; the session is closed.                               *)
Drain(p) ==
    /\ spent.stops < spent.drains
    /\ process[p].up /\ process[p].at \in {"idle", "want", "released"}
    /\ exists' = exists \ {Session(p)}
    /\ gone' = gone \cup {Session(p)}
    /\ process' = [process EXCEPT ![p] = [Idle(@) EXCEPT !.up = FALSE, !.look = FALSE]]
    /\ spent' = [spent EXCEPT !.stops = @ + 1]
    /\ UNCHANGED <<claim, backup, row, log>>

(* A look fails on a storage error. It is logged, and not armed again.     *)
LookFails(p) ==
    /\ spent.errors < LookErrors
    /\ process[p].look /\ process[p].at = "idle"
    /\ process' = [process EXCEPT ![p].look = FALSE]
    /\ spent' = [spent EXCEPT !.errors = @ + 1]
    /\ UNCHANGED <<exists, gone, claim, backup, row, log>>

(* So does a take, before its claim, or the read after a release. The      *)
(* thread is left to the schedule.                                         *)
TakeFails(p) ==
    /\ spent.errors < LookErrors
    /\ process[p].at \in {"want", "released"}
    /\ process' = [process EXCEPT ![p] = Idle(@)]
    /\ spent' = [spent EXCEPT !.errors = @ + 1]
    /\ UNCHANGED <<exists, gone, claim, backup, row, log>>

ClaimDeleted ==
    /\ spent.deleted < Deleted
    /\ claim # NoClaim
    /\ claim' = NoClaim
    /\ backup' = IF PutBack THEN claim ELSE NoClaim
    /\ spent' = [spent EXCEPT !.deleted = @ + 1]
    /\ UNCHANGED <<process, exists, gone, row, log>>

ClaimPutBack ==
    /\ backup # NoClaim
    /\ claim' = backup
    /\ backup' = NoClaim
    /\ UNCHANGED <<process, exists, gone, row, log, spent>>

-----------------------------------------------------------------------------
(* What a process does once it has begun to take the thread.               *)
Step(p) ==
    \/ NothingOwed(p) \/ Claim(p) \/ Refused(p) \/ Raise(p)
    \/ Start(p) \/ Park(p) \/ Steer(p) \/ Append(p) \/ End(p)
    \/ Fenced(p) \/ Adopt(p) \/ Release(p) \/ HandOver(p)

Look(p) == LookAgain(p) /\ LookFinds(p)

System ==
    \/ \E p \in Processes :
        \/ Step(p) \/ Look(p) \/ Restart(p) \/ Sweep(p) \/ SessionLost(p)
        \/ DeathNotice(p)
    \/ DeclareDead

Environment ==
    \/ \E p \in Processes :
        \/ Accept(p) \/ Crash(p) \/ Fault(p) \/ WrongNotice(p)
        \/ Interrupt(p) \/ Drain(p) \/ LookFails(p) \/ TakeFails(p) \/ Renew(p)
    \/ ClaimDeleted
    \/ ClaimPutBack

Next == System \/ Environment

(* What is assumed: a process that is up goes on (its handler ends, for    *)
(* each run has a deadline); an armed look is taken; a process that is     *)
(* down comes back; one whose session is gone finds out; a session without *)
(* a process is declared dead; the schedule keeps asking each sweeper. Of  *)
(* the environment nothing is assumed, nor that anybody gives notice.      *)
Fairness ==
    /\ \A p \in Processes :
        /\ WF_vars(Step(p))
        /\ WF_vars(Look(p))
        /\ WF_vars(Restart(p))
        /\ WF_vars(SessionLost(p))
        /\ WF_vars(Sweep(p))
    /\ WF_vars(DeclareDead)

Spec == Init /\ [][Next]_vars

FairSpec == Spec /\ Fairness

-----------------------------------------------------------------------------
(***************************************************************************)
(* Properties.                                                             *)
(***************************************************************************)
Sessions == Processes \X Nat

(* Which process does something makes no difference. TLC may use it where  *)
(* no temporal property is checked.                                        *)
Symmetry == Permutations(Processes)

TypeOK ==
    /\ DOMAIN process = Processes
    /\ \A p \in Processes :
        /\ process[p].up \in BOOLEAN
        /\ process[p].look \in BOOLEAN
        /\ process[p].at \in {"idle", "want"} \cup Holding
        /\ {process[p].life, process[p].token, process[p].seen, process[p].run,
            process[p].from, process[p].offered} \subseteq Nat
        /\ ~process[p].up => process[p].at = "idle" /\ ~process[p].look
    /\ exists \subseteq Sessions
    /\ gone \subseteq Sessions
    /\ \A c \in {claim, backup} : c = NoClaim \/ (c.session \in Sessions /\ c.token \in Nat)
    /\ {row.asked, row.taken} \subseteq 0..Size(log)
    /\ {row.token, row.turn, row.attempts} \subseteq Nat
    /\ row.due \in BOOLEAN
    /\ row.open # NoRun => row.due
    /\ \A n \in 1..Size(log) :
        log[n].kind \in {"message", "started", "event", "parked"} \cup Terminals

(* Nobody but the environment can do anything any more.                    *)
AtRest == ~ENABLED System

(* Everything that was asked is eventually taken, and the turn that took   *)
(* it comes to its end. As finitely many messages are sent, it is the same *)
(* to say so of each, or of all.                                           *)
AskedIsTaken == ~Settled ~> Settled

(* The same, as a property of states.                                      *)
AskedIsTakenAtRest == Settled \/ ~AtRest

(* Each message has exactly one receipt: none while it is pending, one     *)
(* from then on, and at rest no message is pending.                        *)
Receipts(seq) == {n \in 1..Size(log) : seq \in log[n].takes}

SentIsTaken ==
    /\ \A seq \in Sent :
        Cardinality(Receipts(seq)) = IF seq <= row.taken THEN 1 ELSE 0
    /\ (\A seq \in Sent : seq <= row.taken) \/ ~AtRest

Starts == {n \in 1..Size(log) : log[n].kind = "started"}

(* No two runs of the thread overlap in the journal.                       *)
OneRun ==
    \A m, n \in Starts :
        m < n => \E k \in m..n : log[k].kind \in Terminals /\ log[k].run = m

(* A claim opens the thread with a token greater than all before. (An      *)
(* abandoned run is ended by the transaction that opens, with its token.)  *)
TokensRise ==
    \A n \in {n \in 1..Size(log) : log[n].opens} :
        \A m \in 1..(n - 1) :
            log[m].kind = "abandoned" \/ log[m].token < log[n].token

(* Nothing with a smaller token after the first with a greater, nothing    *)
(* with the same from another session, and nothing of a run after its end. *)
NoStaleWrite ==
    LET writes == {n \in 1..Size(log) : log[n].kind # "message"}
    IN  \A m, n \in writes :
        m < n =>
            /\ log[m].token <= log[n].token
            /\ log[m].token = log[n].token => log[m].session = log[n].session
            /\ log[m].kind \in Terminals /\ log[n].kind = "event" => log[m].run # log[n].run

(* Each run has exactly one terminal entry, but the one that is open.      *)
OneEnd ==
    \A n \in Starts :
        Cardinality({k \in n..Size(log) : log[k].kind \in Terminals /\ log[k].run = n})
            = IF row.open.run = n THEN 0 ELSE 1

(* Messages are consumed in the order in which they were accepted.         *)
InOrder ==
    \A first, second \in Sent :
        first < second =>
            \A n \in Receipts(second) : \E m \in Receipts(first) : m <= n

(* The cursors move only forward.                                          *)
CursorsForward ==
    [][ row'.asked >= row.asked /\ row'.taken >= row.taken /\ row'.taken <= row'.asked ]_vars

(* A claim whose session exists is not replaced by another session's, but  *)
(* by hand.                                                                *)
LiveClaimStands ==
    [][ claim.session \in exists /\ claim' # NoClaim /\ claim' # backup
            => claim'.session = claim.session ]_vars

(* No turn is run more often than it may be.                               *)
AttemptsCounted ==
    \A turn \in 1..row.turn :
        Cardinality({n \in Starts : log[n].turn = turn})
            <= MaxAttempts + spent.drains
=============================================================================
