"""A solve that leaves all that it can to graphs of paths."""

from __future__ import annotations

from hindsight.paths.relaxation import Climb
from hindsight.strategies.configurations import Configurations
from hindsight.strategies.paths import Paths

BY_PATHS = Paths(
    Configurations(moves=10, move_slice=10, states=1, search_growth=1, ascent=1),
    searched_states=1,
    climb=Climb(3),
)
