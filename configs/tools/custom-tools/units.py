"""Tools of your own for massgen: see offline_demo.yaml."""

from typing import Literal

from massgen.tool import ExecutionResult, TextContent

METRES = {"m": 1.0, "km": 1000.0, "mile": 1609.344}


async def convert(value: float, to: Literal["m", "km", "mile"] = "m", source: str = "km") -> ExecutionResult:
    """Convert a length.

    Args:
        value: The length
        to: The unit of the result
        source: The unit of the length
    """
    result = value * METRES[source] / METRES[to]
    return ExecutionResult(output_blocks=[TextContent(data=f"{value:g} {source} = {result:g} {to}")])
