------------------------------ MODULE Entries ------------------------------
(***************************************************************************)
(* A log is a sequence that only grows. The standard module Sequences      *)
(* calls its operator Append; in this specification Append is the action   *)
(* that writes an event, as it is in the core. So the few operators that   *)
(* are needed on logs are given names of their own here.                   *)
(***************************************************************************)
LOCAL INSTANCE Sequences

Size(log) == Len(log)

After(log, entries) == log \o entries
=============================================================================
