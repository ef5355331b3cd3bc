"""Ops whose result at a place depends on their inputs at that place alone."""

UNARY = frozenset(
    {
        *(
            "Abs",
            "Cast",
            "Ceil",
            "CheckNumerics",
            "Exp",
            "Expm1",
            "Floor",
            "Identity",
            "Inv",
            "Log",
            "Log1p",
            "Neg",
        ),
        *(
            "PreventGradient",
            "Reciprocal",
            "Relu",
            "Relu6",
            "Rsqrt",
            "Sigmoid",
            "Sign",
            "Sqrt",
            "Square",
            "Tanh",
        ),
        *("Snapshot", "StopGradient"),
    }
)
BINARY = frozenset(
    {
        *(
            "Add",
            "AddV2",
            "Div",
            "DivNoNan",
            "Maximum",
            "Minimum",
            "Mul",
            "MulNoNan",
            "Pow",
            "RealDiv",
            "Sub",
        ),
        "SquaredDifference",
    }
)
"""Of inputs of one shape, or of one and a scalar."""
APPLIES = frozenset(
    f"ResourceApply{name}"
    for name in (
        *("AdaMax", "Adadelta", "Adagrad", "AdagradDA", "AdagradV2", "Adam", "AdamWithAmsgrad", "AddSign"),
        *("CenteredRMSProp", "Ftrl", "FtrlV2", "GradientDescent", "KerasMomentum", "Momentum", "PowerSign"),
        *("ProximalAdagrad", "ProximalGradientDescent", "RMSProp"),
    )
)
"""Updates of variables of one shape by a tensor of that shape and scalars."""
ASSIGNS = frozenset({"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"})
UPDATES = APPLIES | ASSIGNS
DELTAS = frozenset({"delta", "grad", "value"})
"""How the signatures of updates call the tensor that has the variable's shape."""
