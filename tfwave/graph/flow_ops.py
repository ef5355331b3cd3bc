"""The ops of the executor's control flow, by what they do."""

SWITCH_OPS = frozenset({"Switch", "RefSwitch", "_SwitchN", "Ref_SwitchN"})
MERGE_OPS = frozenset({"Merge", "RefMerge"})
ENTER_OPS = frozenset({"Enter", "RefEnter"})
EXIT_OPS = frozenset({"Exit", "RefExit"})
NEXT_OPS = frozenset({"NextIteration", "RefNextIteration"})
