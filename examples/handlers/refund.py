"""A handler in Python: it refunds orders, and has a person approve each refund first.

turnkeeper run --python examples.handlers.refund:turn
turnkeeper send alice '{"order": "A-17", "eur": 30}' --content-json
"""

from collections.abc import Mapping
from functools import partial
from typing import cast

from turnkeeper.core.values import Json
from turnkeeper.core.words import Ask, Resolution
from turnkeeper.ports import Asking, Pause, Turn


async def turn(turn: Turn) -> Json | Pause:
    """Refund what was approved; ask about what is new."""
    receipts = []
    for question in turn.questions:
        order = cast("Mapping[str, Json]", question.detail)
        if question.resolution is Resolution.APPROVED:
            # Whatever dies from here on: a later attempt of this turn gets this receipt, and no second refund.
            receipts.append(await turn.step(f"refund {order['order']}", partial(refund, order, turn.token)))
        else:
            await turn.emit(f"{order['order']} is not refunded: {question.resolution}")
    if receipts:
        return {"refunded": receipts}

    orders = [message.content for message in turn.prompts if is_order(message.content)]
    if orders:
        return Pause(tuple(ask_about(cast("Mapping[str, Json]", order)) for order in orders))
    return "Send an order, for example {'order': 'A-17', 'eur': 30}."


def is_order(content: Json) -> bool:
    """Whether somebody sent an order, or just text."""
    return isinstance(content, Mapping) and {"order", "eur"} <= content.keys()


def ask_about(order: Mapping[str, Json]) -> Asking:
    """Ask for an approval; what is approved is what stands in `detail`."""
    return Asking(text=f"Refund {order['eur']} EUR for order {order['order']}?", ask=Ask.APPROVAL, detail=order)


async def refund(order: Mapping[str, Json], token: int) -> Json:
    """Stand for a bank's API; it would be told the token, and refuse one that is smaller than it has seen."""
    return {"order": order["order"], "eur": order["eur"], "fence": token}
