"""Fields and whole lines of CSV. Spark's `from_csv` is the yardstick for all."""

from __future__ import annotations

from .json_cases import NUMBERS, TEXTS

TYPES = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(10,2)", "decimal(38,18)", "decimal(5,0)", "string",
    "date", "timestamp", "timestamp_ntz", "binary",
)  # fmt: skip

FIELDS = (
    *NUMBERS,
    *(text for text in TEXTS if "\\" not in text and "," not in text),
    "+5", "-5", "1L", "1d", "1.5f", "0x10", "0x1p3", "1e5", "١٢", " 5", "5 ", "\t5", "Inf", "-Inf", "+Inf", "infinity", "NAN", "+NaN",
    "True", "FALSE", "yes", "t", "T", "0", "1 2", "NULL", "null", "\\N", "None", "#c", "a;b", "a|b", "é", "𝒳", "\x01", "x\x00", "1__0",
    "1.", ".1", "-.5", "+.5", ".", "-", "+", "e", "1e", "00012", "-0", "1D", "1F", "1e5f", "NaNf", "Infinityf", "+Infinity",
    "-Infinity", "  ", "\t", "0" * 40 + "12", "-" + "0" * 20 + "7",
)  # fmt: skip

# each with the columns `a` and `b`
LINES: tuple[bytes, ...] = (
    b"", b" ", b",", b"x", b"x,", b",y", b"x,y", b"x,y,", b"x,y,z", b" x , y ", b"\tx,y", b"x,y\n", b"x,y\r\n", b"x,y\r", b"x,y\nu,v",
    b"x\ny,z", b"x\ry,z", b"\nx,y", b'"x",y', b'"x","y"', b'"x,y",z', b'"x""y",z', b'"x\\"y",z', b'"x\\\\",y', b'"x\\y",z', b"x\\,y",
    b"x\\y,z", b"x\\\\,z", b'"",y', b'"" ,y', b'" ",y', b'"x"y,z', b'x"y",z', b'x"y,z', b'x""y,z', b' "x",y', b'"x" ,y', b'"x\ny",z',
    b'"x\r\ny",z', b'"x,y', b'"', b'""', b'"""",y', b'"""x""",y', b'""x,y', b'"x"",y', b"'x,y',z", b"#x,y", b"x,#y", b"x;y", b"x\ty",
    b"\xef\xbb\xbfx,y", b"\xff,y", b"x,\xc3", b"\xed\xa0\x80,y", b"x\x00,y", b"\x00,y", b"x,y\x00", b"\xc3\xa9,\xf0\x9d\x92\xb3",
    b"x" * 5000 + b",y", b"null,y", b"\\N,y", b"x,\xc2\xa0", b"\xe2\x80\xa8,y", b"\x85,y", b"x,y ", b"x,  ", b"  ,y", b'x,""', b'x,"y',
    b'x,y"', b'x,"y"z', b'"x"\t,y', b'"a""b""c",d', b'"a""",b', b'"""a",b', b'"a"", b",c', b"x\x0by,z", b"x\x0cy,z", b"x\x1cy,z",
    b"x,y\x0b", b"x\\", b'\\"x,y', b'"\\"",y',
)  # fmt: skip

_DIGITS = {"１２", "١٢"}
_FLOATING = {"0x1p3", "1F", "1f", "1.5f", "1d", "+NaN", "1D", "1.5d", "1e5f"}
_DECIMAL = {"1e-100000", "1e-100001", *_DIGITS}
_LATE = {"294247-01-10", "-290308-12-21 19:59:05.224192"}

# Fields that Spark accepts and that are rejected here, by type; docs/records.md says why.
STRICTER: dict[str, set[str]] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _DIGITS),
    **dict.fromkeys(("float", "double"), _FLOATING),
    **dict.fromkeys(("decimal(10,2)", "decimal(38,18)", "decimal(5,0)"), _DECIMAL),
    "timestamp": {"12:34:56", "T12:34", "12:34", "294247-01-10T04:00:54.775807Z", *_LATE},
    "timestamp_ntz": _LATE,
}
