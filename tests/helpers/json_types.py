"""Types that JSON is read as, in more than one file."""

import datetime as dt
import enum
from typing import Annotated, Literal

from pydantic import BaseModel, Field
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12


class Inner(BaseModel):
    x: int
    y: str = ""


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Dog(BaseModel):
    kind: Literal["dog"]
    born: dt.date | None = None
    name: str = ""


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Everything(BaseModel):
    name: str
    count: int = 0
    ratio: float = 0.0
    is_open: bool = False
    colour: Colour = Colour.RED
    word: Literal["yes", "yesterday"] = "yes"
    day: dt.date | None = None
    maybe: str | None = None
    inner: Inner | None = None
    items: list[Inner] = []
    table: dict[str, Inner] = {}
    mixed: Inner | str | int = 0
    numbers: list[int] = []
    pair: tuple[int, str] = (0, "")
    short: Annotated[str, Field(max_length=4)] = ""
    letters: Annotated[str, Field(pattern="^[a-z]+$")] = ""
    small: Annotated[int, Field(lt=10)] = 0
    other: str = Field("", alias="otherName")
    pet: Annotated[Dog | Cat, Field(discriminator="kind")] | None = None
    animal: Dog | Cat | None = None


class CityDict(TypedDict):
    city: str
    days: int


class City(BaseModel):
    city: str
    days: int = 1


class Whole(BaseModel):
    kind: Literal["whole"]
    value: int


class Sum(BaseModel):
    kind: Literal["sum"]
    left: "Term"
    right: "Term"


class Product(BaseModel):
    kind: Literal["product"]
    left: "Term"
    right: "Term"


Term = Annotated[Whole | Sum | Product, Field(discriminator="kind")]


class Stop(BaseModel):
    city: str
    nights: int = 1
    price: float | None = None
    is_paid: bool = False
    kind: Literal["visit", "visitation"] = "visit"
    arrival: dt.date | None = None
    guests: list[City] = []


class Trip(BaseModel):
    title: str
    stops: list[Stop]
    by_name: dict[str, Stop | None] = {}
    notes: list[str] = []
    budget: dict[str, int] = {}
