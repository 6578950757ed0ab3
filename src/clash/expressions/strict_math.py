"""EXP, LN, LOG10 and POWER with exactly the digits of Java's StrictMath: the algorithms of fdlibm (Sun Microsystems, 1993) over arrays.

They use additions, multiplications and divisions of doubles only, which are the same everywhere; the functions of the C library differ in
the last digit. Names of constants and variables are those of fdlibm.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Doubles = np.ndarray[Any, np.dtype[np.float64]]
Longs = np.ndarray[Any, np.dtype[np.int64]]

_LN2_HI, _LN2_LO, _INV_LN2 = 6.93147180369123816490e-01, 1.90821492927058770002e-10, 1.44269504088896338700e00
_P = (
    1.66666666666666019037e-01, -2.77777777770155933842e-03, 6.61375632143793436117e-05, -1.65339022054652515390e-06,
    4.13813679705723846039e-08,
)  # fmt: skip
_LG = (
    6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01, 2.222219843214978396e-01, 1.818357216161805012e-01,
    1.531383769920937332e-01, 1.479819860511658591e-01,
)  # fmt: skip
_L = (
    5.99999999999994648725e-01, 4.28571428578550184252e-01, 3.33333329818377432918e-01, 2.72728123808534006489e-01,
    2.30660745775561754067e-01, 2.06975017800338417784e-01,
)  # fmt: skip
_CP, _CP_H, _CP_L = 9.61796693925975554329e-01, 9.61796700954437255859e-01, -7.02846165095275826516e-09
_DP_H, _DP_L = 5.84962487220764160156e-01, 1.35003920212974897128e-08
_LG2, _LG2_H, _LG2_L = 6.93147180559945286227e-01, 6.93147182464599609375e-01, -1.90465429995776804525e-09
_INV_LN2_H, _INV_LN2_L = 1.44269502162933349609e00, 1.92596299112661746887e-08
_OVERFLOW = 8.0085662595372944372e-17  # -(1024 - log2(the largest double + half a unit of its last digit))
_HIGH = np.int64(-1 << 32)  # the upper half of a double, as a mask


def _polynomial(t: Doubles, coefficients: tuple[float, ...]) -> Doubles:
    result = np.full_like(t, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = coefficient + t * result
    return result


def _upper(x: Doubles) -> Doubles:
    """The number without the lower half of its bits."""
    return (x.view(np.int64) & _HIGH).view(np.float64)


def _high_word(x: Doubles) -> Longs:
    """The upper half of the bits, with its sign."""
    return x.view(np.int64) >> 32


def _with_high_word(x: Doubles, high: Longs) -> Doubles:
    return ((x.view(np.int64) & ~_HIGH) | (high << 32)).view(np.float64)


def exp(x: Doubles) -> Doubles:
    """e to the power of x."""
    x = np.ascontiguousarray(x, dtype=np.float64)
    with np.errstate(all="ignore"):
        usual = np.isfinite(x) & (x <= 7.09782712893383973096e02) & (x >= -7.45133219101941108420e02)
        arg = np.where(usual, x, 0.0)
        size, sign = _high_word(arg) & 0x7FFFFFFF, np.where(np.signbit(arg), -1.0, 1.0)
        reduced, near = size > 0x3FD62E42, size < 0x3FF0A2B2
        k = np.where(near, sign, np.trunc(_INV_LN2 * arg + np.copysign(0.5, arg)))
        k = np.where(reduced, k, 0.0)
        hi, lo = np.where(reduced, arg - k * _LN2_HI, arg), k * _LN2_LO
        r = np.where(reduced, hi - lo, arg)
        t = r * r
        c = r - t * _polynomial(t, _P)
        y = np.where(reduced, 1.0 - ((lo - (r * c) / (2.0 - c)) - hi), 1.0 - ((r * c) / (c - 2.0) - r))
        y = np.where(size < 0x3E300000, 1.0 + arg, y)
        shift = k.astype(np.int64)
        small = shift < -1021
        scaled = _with_high_word(y, _high_word(y) + (np.where(small, shift + 1000, shift) << 20))
        y = np.where(reduced, np.where(small, scaled * 9.33263618503218878990e-302, scaled), y)
        return np.where(usual, y, np.where(np.isnan(x), x, np.where(x > 0, np.inf, 0.0)))


def _split(x: Doubles) -> tuple[np.ndarray[Any, np.dtype[np.bool_]], Doubles, Longs, Longs]:
    """Which arguments have a logarithm, the arguments (1 in place of others) without subnormal ones, their high words and exponents."""
    usual = np.isfinite(x) & (x > 0)
    arg = np.where(usual, x, 1.0)
    tiny = arg < 2.0**-1022
    arg = np.where(tiny, arg * 2.0**54, arg)
    high = _high_word(arg)
    return usual, arg, high, np.where(tiny, -54, 0) + (high >> 20) - 1023


def log(x: Doubles) -> Doubles:
    """The natural logarithm; NaN below zero."""
    x = np.ascontiguousarray(x, dtype=np.float64)
    with np.errstate(all="ignore"):
        usual, arg, hx, k = _split(x)
        hx = hx & 0x000FFFFF
        i = (hx + 0x95F64) & 0x100000
        arg = _with_high_word(arg, hx | (i ^ 0x3FF00000))
        k = k + (i >> 20)
        f, dk = arg - 1.0, k.astype(np.float64)
        square = f * f * (0.5 - 0.33333333333333333 * f)
        close = np.where(k == 0, f - square, dk * _LN2_HI - ((square - dk * _LN2_LO) - f))
        close = np.where(f == 0, np.where(k == 0, 0.0, dk * _LN2_HI + dk * _LN2_LO), close)
        s = f / (2.0 + f)
        z = s * s
        w = z * z
        r = z * (_LG[0] + w * (_LG[2] + w * (_LG[4] + w * _LG[6]))) + w * (_LG[1] + w * (_LG[3] + w * _LG[5]))
        half = 0.5 * f * f
        upper = np.where(k == 0, f - (half - s * (half + r)), dk * _LN2_HI - ((half - (s * (half + r) + dk * _LN2_LO)) - f))
        lower = np.where(k == 0, f - s * (f - r), dk * _LN2_HI - ((s * (f - r) - dk * _LN2_LO) - f))
        far = np.where(((hx - 0x6147A) | (0x6B851 - hx)) > 0, upper, lower)
        result = np.where((0x000FFFFF & (2 + hx)) < 3, close, far)
        return np.where(usual, result, np.where(x == 0, -np.inf, np.where(x < 0, np.nan, x)))


def log10(x: Doubles) -> Doubles:
    """The logarithm to base 10; NaN below zero."""
    x = np.ascontiguousarray(x, dtype=np.float64)
    with np.errstate(all="ignore"):
        usual, arg, hx, k = _split(x)
        i = (k < 0).astype(np.int64)
        y = (k + i).astype(np.float64)
        fraction = _with_high_word(arg, (hx & 0x000FFFFF) | ((0x3FF - i) << 20))
        z = y * 3.69423907715893078616e-13 + 4.34294481903251816668e-01 * log(fraction)
        result = z + y * 3.01029995663611771306e-01
        return np.where(usual, result, np.where(x == 0, -np.inf, np.where(x < 0, np.nan, x)))


def power(x: Doubles, y: Doubles) -> Doubles:
    """x to the power of y; NaN for a negative x and a y that is no integer."""
    x, y = (np.ascontiguousarray(a, dtype=np.float64) for a in np.broadcast_arrays(x, y))
    with np.errstate(all="ignore"):
        size, whole = np.abs(x), np.floor(y) == y
        odd = whole & (np.abs(y) < 2.0**53) & (np.fmod(y, 2.0) != 0)
        negative = np.signbit(x)
        sign = np.where(negative & odd, -1.0, 1.0)
        plain = np.isfinite(x) & np.isfinite(y) & (size != 0) & (size != 1.0) & (y != 0)
        result = sign * _power_of_positive(np.where(plain, size, 2.0), np.where(plain, y, 1.0))
        result = np.where(negative & ~whole & (x != 0), np.nan, result)
        edge = np.where(y < 0, 1.0 / size, size)  # of 0, 1 and infinity
        edge = np.where(negative & (size == 1.0) & ~whole, np.nan, np.where(negative & odd, -edge, edge))
        result = np.where((size == 0) | (size == 1.0) | np.isinf(x), edge, result)
        grows = np.where(size > 1.0, np.where(y >= 0, y, 0.0), np.where(y < 0, -y, 0.0))
        result = np.where(np.isinf(y), np.where(size == 1.0, np.nan, grows), result)
        result = np.where(np.abs(y) == 1.0, np.where(y == 1.0, x, 1.0 / x), result)
        result = np.where((y == 0.5) & (x >= -1.7976931348623157e308), np.sqrt(x + 0.0), result)
        result = np.where(y == 2.0, x * x, result)
        result = np.where(np.isnan(x) | np.isnan(y), np.nan, result)
        return np.where(y == 0, 1.0, result)


def _power_of_positive(x: Doubles, y: Doubles) -> Doubles:
    """For finite x > 0 and y: 2 to the power of y * log2(x), where log2(x) is t1 + t2."""
    t1, t2 = _log2(x)
    huge = np.abs(y) > float.fromhex("0x1.00000ffffffffp31")
    t = x - 1.0
    w = (t * t) * (0.5 - t * (0.3333333333333333333333 - t * 0.25))
    u, v = _INV_LN2_H * t, t * _INV_LN2_L - w * _INV_LN2
    near = _upper(u + v)
    t1, t2 = np.where(huge, near, t1), np.where(huge, v - (near - u), t2)
    y1 = _upper(y)
    p_l, p_h = (y - y1) * t1 + y * t2, y1 * t1
    z = p_l + p_h
    over = (z > 1024) | ((z == 1024) & (p_l + _OVERFLOW > z - p_h))
    under = (z < -1075) | ((z == -1075) & (p_l <= z - p_h))
    far = huge & ((x < float.fromhex("0x1.fffff00000000p-1")) | (x > float.fromhex("0x1.00000ffffffffp0")))
    over, under = np.where(far, (y > 0) == (x > 1), over), np.where(far, (y > 0) != (x > 1), under)
    usual = ~over & ~under
    result = _power_of_two(np.where(usual, z, 0.0), np.where(usual, p_h, 0.0), np.where(usual, p_l, 0.0))
    return np.where(over, np.inf, np.where(under, 0.0, result))


def _log2(x: Doubles) -> tuple[Doubles, Doubles]:
    """The logarithm to base 2 in two parts, of which the first has only the upper half of its bits."""
    tiny = x < 2.0**-1022
    x = np.where(tiny, x * 2.0**53, x)
    ix = _high_word(x)
    n = np.where(tiny, -53, 0) + (ix >> 20) - 0x3FF
    j = ix & 0x000FFFFF
    k = ((j > 0x3988E) & (j < 0xBB67A)).astype(np.int64)
    next_ = j >= 0xBB67A
    n, ix = n + next_, (j | 0x3FF00000) - np.where(next_, 0x00100000, 0)
    x = _with_high_word(x, ix)
    bp = np.where(k == 1, 1.5, 1.0)
    u, v = x - bp, 1.0 / (x + bp)
    ss = u * v
    s_h = _upper(ss)
    t_h = ((((ix >> 1) | 0x20000000) + 0x00080000 + (k << 18)) << 32).view(np.float64)
    t_l = x - (t_h - bp)
    s_l = v * ((u - s_h * t_h) - s_h * t_l)
    s2 = ss * ss
    r = s2 * s2 * _polynomial(s2, _L)
    r = r + s_l * (s_h + ss)
    s2 = s_h * s_h
    t_h = _upper(3.0 + s2 + r)
    t_l = r - ((t_h - 3.0) - s2)
    u, v = s_h * t_h, s_l * t_h + t_l * ss
    p_h = _upper(u + v)
    p_l = v - (p_h - u)
    z_h, z_l = _CP_H * p_h, _CP_L * p_h + p_l * _CP + np.where(k == 1, _DP_L, 0.0)
    dp_h, t = np.where(k == 1, _DP_H, 0.0), n.astype(np.float64)
    t1 = _upper(((z_h + z_l) + dp_h) + t)
    return t1, z_l - (((t1 - t) - dp_h) - z_h)


def _power_of_two(z: Doubles, p_h: Doubles, p_l: Doubles) -> Doubles:
    """2 to the power of z = p_h + p_l."""
    j = _high_word(z)
    i = j & 0x7FFFFFFF
    far = i > 0x3FE00000
    k = (i >> 20) - 0x3FF
    n = j + (np.int64(0x00100000) >> np.clip(k + 1, 0, 63))
    k = ((n & 0x7FFFFFFF) >> 20) - 0x3FF
    steps = np.clip(k, 0, 20)
    t = ((n & ~(np.int64(0x000FFFFF) >> steps)) << 32).view(np.float64)
    n = ((n & 0x000FFFFF) | 0x00100000) >> (20 - steps)
    n = np.where(far, np.where(j < 0, -n, n), 0)
    p_h = np.where(far, p_h - t, p_h)
    t = _upper(p_l + p_h)
    u, v = t * _LG2_H, (p_l - (t - p_h)) * _LG2 + t * _LG2_L
    z = u + v
    w = v - (z - u)
    t = z * z
    t1 = z - t * _polynomial(t, _P)
    r = (z * t1) / (t1 - 2.0) - (w + z * w)
    z = 1.0 - (r - z)
    return np.ldexp(z, n.astype(np.int32))
