"""Which models are made to fit, and in which ways a batch can be larger than one that fits as it is."""

MODELS = ("resnet", "vgg", "bert", "inception", "unet", "lstm")
PLACED = "placed"
"""By a plan of `tfwave fit --placement`, in a planned pool."""
PLANNED = ("order", "offload", "recompute", "both", PLACED)
"""By a plan of `tfwave fit`."""
WAYS = ("plain", *PLANNED, "halved", "grappler", "recompute_grad")
