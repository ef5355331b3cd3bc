"""The ops of the executor's control flow, and of functions, by what they do."""

SWITCH_OPS = frozenset({"Switch", "RefSwitch", "_SwitchN", "Ref_SwitchN"})
MERGE_OPS = frozenset({"Merge", "RefMerge"})
ENTER_OPS = frozenset({"Enter", "RefEnter"})
EXIT_OPS = frozenset({"Exit", "RefExit"})
NEXT_OPS = frozenset({"NextIteration", "RefNextIteration"})

ARG_OPS = frozenset({"_Arg", "_DeviceArg"})
RETVAL_OPS = frozenset({"_Retval", "_DeviceRetval"})
CALL_OPS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
