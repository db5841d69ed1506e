"""Each mutant still changes the line that it is about; what comes of it is for `make sim-mutants` to see."""

import pytest

from tests.sim.mutant import Mutant
from tests.sim.mutations import MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_has_its_line(mutant: Mutant) -> None:
    """A line that was rewritten since would leave the guard untried."""
    for line in (*mutant.lines, *mutant.without):
        _, source = line.source()
        compile(source, mutant.name, "exec")
        assert line.new in source
