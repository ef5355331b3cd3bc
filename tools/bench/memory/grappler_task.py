"""The process of a trial with Grappler's memory optimizer, and none of its others; else as `limited_task`."""

from typing import Any

from tools.bench.memory.limited_task import Trial, main

MODULE = "tools.bench.memory.grappler_task"
_GRADIENTS = "gradients/"
"""How the names begin for which the optimizer makes tensors again; `minimize` gives them."""


class OptimizedTrial(Trial):
    """A session in which TensorFlow makes cheap tensors again by its own heuristics."""

    def _open(self, graph: Any) -> Any:
        config = self._config()
        rewrite = config.graph_options.rewrite_options
        for field in rewrite.DESCRIPTOR.fields:
            if field.enum_type is not None and field.enum_type.name == "Toggle":
                setattr(rewrite, field.name, rewrite.OFF)
        rewrite.disable_model_pruning = True
        rewrite.min_graph_nodes = -1
        rewrite.meta_optimizer_iterations = rewrite.ONE
        rewrite.memory_optimization = rewrite.RECOMPUTATION_HEURISTICS
        rewrite.memory_optimizer_target_node_name_scope = _GRADIENTS
        config.graph_options.optimizer_options.opt_level = -1
        return self._tf.compat.v1.Session(graph=graph, config=config)


if __name__ == "__main__":
    main(OptimizedTrial)
