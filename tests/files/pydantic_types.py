"""Typical declarations of programs with pydantic, and pydantic's JSON Schemas of them."""
import datetime
import decimal
import enum
import ipaddress
import pathlib
import re
import typing
import uuid
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional, Union

import pydantic
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, networks, types
from typing_extensions import NamedTuple, NotRequired, TypedDict


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Flat(BaseModel):
    name: str
    size: int = 3


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


class Nested(BaseModel):
    flat: Flat
    others: list[Flat] = []
    maybe: Optional[Flat] = None


class Tree(BaseModel):
    value: int
    children: list["Tree"] = []


class Linked(BaseModel):
    value: str
    next: Optional["Linked"] = None


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    barks: bool = True


class Owner(BaseModel):
    pet: Union[Cat, Dog] = Field(discriminator="kind")


class Described(BaseModel):
    """Text about a model."""

    a: int = Field(1, title="A", description="d", examples=[1, 2], deprecated=True)
    b: str = Field(alias="bee", min_length=1)
    c: float = Field(gt=0, lt=1, json_schema_extra={"unit": "m"})


class Computed(BaseModel):
    a: int

    @pydantic.computed_field
    @property
    def double(self) -> int:
        return 2 * self.a


class Root(pydantic.RootModel[list[int]]):
    pass


@dataclass
class Point:
    x: float
    y: float = 0.0


class Pair(NamedTuple):
    left: int
    right: str


class Typed(TypedDict):
    name: str
    size: NotRequired[int]


T = typing.TypeVar("T")


class Box(BaseModel, typing.Generic[T]):
    content: T


TYPES = {
    # Plain types.
    "str": str, "int": int, "float": float, "bool": bool, "None": None, "Any": Any, "object": object, "bytes": bytes,
    "Decimal": decimal.Decimal, "complex": complex, "UUID": uuid.UUID, "Path": pathlib.Path, "Pattern": re.Pattern,
    "date": datetime.date, "datetime": datetime.datetime, "time": datetime.time, "timedelta": datetime.timedelta,
    "Enum": Colour, "IntEnum": Level, "Literal": Literal["a", "b"], "mixed Literal": Literal["a", 1, True, None],
    "one Literal": Literal["x"],
    # Containers.
    "list": list[int], "bare list": list, "set": set[int], "frozenset": frozenset[str], "dict": dict[str, int],
    "bare dict": dict, "dict of int names": dict[int, str], "dict of enum names": dict[Colour, int],
    "dict of Literal names": dict[Literal["a", "b"], int], "dict of UUID names": dict[uuid.UUID, int],
    "dict of date names": dict[datetime.date, int], "tuple": tuple[int, str], "long tuple": tuple[int, ...],
    "empty tuple": tuple[()], "dict of pattern names": dict[Annotated[str, Field(pattern="^a")], int],
    "dict of long names": dict[Annotated[str, Field(min_length=2)], int], "Sequence": typing.Sequence[int],
    "nested list": list[list[list[int]]], "conlist": types.conlist(int, min_length=1, max_length=3),
    "conset": types.conset(int, min_length=1, max_length=3), "set of at most one": types.conset(int, max_length=1),
    "dict bounds": Annotated[dict[str, int], Field(min_length=1, max_length=2)], "deque": typing.Deque[int],
    # Unions.
    "Optional": Optional[int], "Union": Union[int, str], "Union of lists": Union[list[int], list[str]],
    "Union of models": Union[Flat, Closed], "discriminated": Annotated[Union[Cat, Dog], Field(discriminator="kind")],
    # Bounds.
    "constr": types.constr(min_length=1, max_length=5), "pattern": types.constr(pattern=r"^[a-z]+\d$"),
    "upper case": types.constr(to_upper=True), "conint": types.conint(ge=0, le=9), "exclusive": types.conint(gt=0, lt=9),
    "int64": types.conint(ge=-(2**63), le=2**63 - 1), "uint64": types.conint(ge=0, le=2**64 - 1),
    "multiple": types.conint(multiple_of=5), "great multiple": types.conint(multiple_of=3600, ge=0, le=86400),
    "unbounded multiple": types.conint(multiple_of=12345), "confloat": types.confloat(ge=0, le=1),
    "float multiple": types.confloat(multiple_of=0.5), "condecimal": types.condecimal(max_digits=5, decimal_places=2),
    "condate": types.condate(gt=datetime.date(2020, 1, 1)), "conbytes": types.conbytes(min_length=1, max_length=4),
    # Types of pydantic.
    **{name: getattr(types, name) for name in (
        "StrictStr", "StrictInt", "StrictFloat", "StrictBool", "StrictBytes", "PositiveInt", "NegativeInt", "NonNegativeInt",
        "NonPositiveInt", "PositiveFloat", "NegativeFloat", "NonNegativeFloat", "NonPositiveFloat", "FiniteFloat", "UUID1",
        "UUID3", "UUID4", "UUID5", "UUID6", "UUID7", "UUID8", "FilePath", "DirectoryPath", "NewPath", "Json", "SecretStr",
        "SecretBytes", "ByteSize", "PastDate", "FutureDate", "PastDatetime", "FutureDatetime", "AwareDatetime", "NaiveDatetime",
        "Base64Bytes", "Base64Str", "Base64UrlBytes", "Base64UrlStr", "PaymentCardNumber",
    ) if hasattr(types, name)},
    "Json of": types.Json[list[int]], "Secret": types.Secret[int],
    # Networks.
    **{name: getattr(networks, name) for name in (
        "AnyUrl", "AnyHttpUrl", "HttpUrl", "FileUrl", "FtpUrl", "WebsocketUrl", "AnyWebsocketUrl", "PostgresDsn", "CockroachDsn",
        "AmqpDsn", "RedisDsn", "MongoDsn", "KafkaDsn", "NatsDsn", "MySQLDsn", "MariaDBDsn", "ClickHouseDsn", "SnowflakeDsn",
        "IPvAnyAddress", "IPvAnyInterface", "IPvAnyNetwork",
    ) if hasattr(networks, name)},
    **{name: getattr(ipaddress, name) for name in (
        "IPv4Address", "IPv6Address", "IPv4Interface", "IPv6Interface", "IPv4Network", "IPv6Network",
    )},
    # Models.
    "model": Flat, "model without more": Closed, "model with more": Open, "nested model": Nested, "tree": Tree,
    "linked list": Linked, "discriminated member": Owner, "described members": Described, "computed member": Computed,
    "root model": Root, "dataclass": Point, "NamedTuple": Pair, "TypedDict": Typed, "generic model": Box[int],
    "list of models": list[Nested],
}


def schemas():
    """Returns names and schemas of all types that have one."""
    for name, kind in TYPES.items():
        seen = []
        for mode in ("validation", "serialization"):
            try:
                schema = TypeAdapter(kind).json_schema(mode=mode)
            except pydantic.errors.PydanticInvalidForJsonSchema:
                continue
            if schema not in seen:
                seen.append(schema)
                yield f"pydantic {name}" + (" (serialization)" if mode == "serialization" else ""), schema
