"""What a wave takes over from the wave before within one call, as consecutive steps do."""

from dataclasses import dataclass

from tfwave.graph.names import parse_input
from tfwave.graph.rewriter import GraphRewriter
from tfwave.passes.base import GraphPass
from tfwave.rewrite.waves.names import wave_name


@dataclass(frozen=True)
class CarryOver(GraphPass):
    """In a graph of waves, give each what the wave before computed, in place of some of its feeds.

    `feeds` are those of wave 0, `sources` the tensors of wave 0 that the next takes for them, both ``node:port``.
    A source that is a feed itself is handed on.
    """

    waves: int = 2
    feeds: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    def run(self, graph: GraphRewriter) -> None:
        """Redirect what takes the feeds of the further waves, which are fed no longer."""
        entering = {
            parse_input(wave_name(feed, wave)).node: self._entering(graph, index, wave)
            for index, feed in enumerate(self.feeds)
            for wave in range(1, self.waves)
        }
        for node in graph.view.nodes:
            for position, text in enumerate(node.input):
                if not text.startswith("^") and parse_input(text).node in entering:
                    graph.redirect(node.name, position, entering[parse_input(text).node])
        feeds = [feed for feed in graph.item.feeds if parse_input(feed).node not in entering]
        graph.rename_ends(feeds=feeds, fetches=graph.item.fetches)

    def _entering(self, graph: GraphRewriter, index: int, wave: int) -> str:
        """The tensor that a wave takes for a feed."""
        if wave == 0:
            return self.feeds[index]
        source = self.sources[index]
        if source in self.feeds:
            return self._entering(graph, self.feeds.index(source), wave - 1)
        name = wave_name(source, wave - 1)
        return name if graph.has_node(parse_input(name).node) else source
