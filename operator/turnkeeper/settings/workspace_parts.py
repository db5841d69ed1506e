"""The shapes that every part of a Workspace is made of: how its fields are named, and what their texts may hold.

What the API server can check by a schema or a CEL rule is said as one, so that a mistake is refused where it is made
and the controller meets none that it can't act on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

DNS_LABEL: Final = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_NAME: Final = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
LABEL_KEY: Final = "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
LABEL_VALUE: Final = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
QUANTITY: Final = "^([0-9]+(\\.[0-9]*)?|\\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"


class Part(BaseModel):
    """A part of a Workspace. Unknown fields are passed over: a newer definition may have more."""

    model_config = ConfigDict(
        extra="ignore", frozen=True, allow_inf_nan=False, alias_generator=to_camel, validate_by_name=True
    )


def rules(*pairs: tuple[str, str]) -> dict[str, Any]:
    """Return CEL rules, each with the sentence that a person is told where it does not hold."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in pairs]}


def exactly_one(names: Iterable[str]) -> tuple[str, str]:
    """Return the rule that one of these fields is set, and one alone."""
    given = list(names)
    listed = ", ".join(f"has(self.{name})" for name in given)
    return f"[{listed}].filter(is_set, is_set).size() == 1", f"set exactly one of {', '.join(given)}"


def by_key(key: str) -> dict[str, Any]:
    """Return what makes a list one of items that are told apart by a field."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


Quantity: TypeAlias = Annotated[
    int | str,
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": QUANTITY, "int-or-string": True}),
]
ObjectName: TypeAlias = Annotated[str, Field(min_length=1, max_length=253, pattern=DNS_NAME)]
LabelValue: TypeAlias = Annotated[str, Field(max_length=63, pattern=LABEL_VALUE)]
Key: TypeAlias = Annotated[str, Field(min_length=1, max_length=253, pattern="^[-._a-zA-Z0-9]+$")]
Url: TypeAlias = Annotated[str, Field(max_length=4096, pattern="^https?://.+")]

KEY_RULES: Final = rules(
    (f"self.all(key, key.size() <= 317 && key.matches('{LABEL_KEY}'))", "each key must be a label's: [prefix/]name")
)
Labels: TypeAlias = Annotated[dict[str, LabelValue], Field(max_length=50, json_schema_extra=KEY_RULES)]
Annotations: TypeAlias = Annotated[
    dict[str, Annotated[str, Field(max_length=512)]], Field(max_length=20, json_schema_extra=KEY_RULES)
]


class SecretKey(Part):
    """One key of a Secret in the Workspace's namespace."""

    name: ObjectName = Field(description="The Secret's name.")
    key: Key = Field(description="The key in the Secret.")
