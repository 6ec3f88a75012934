"""Print the polynomial coefficients of stelliferous_xp/kernels/elementary.h (needs mpmath).

Each polynomial is the minimax fit (Remez exchange on a dense grid) of a smooth function under a weight, its coefficients
then rounded to float32 or float64.
"""

import struct

import mpmath
from mpmath import mp, mpf

mp.prec = 150


def remez(f, weight, low, high, degree, grid=600):
    """The coefficients, lowest first, that minimise max |weight * (p - f)|."""
    xs = [(low + high) / 2 - (high - low) / 2 * mpmath.cos(mp.pi * (i + mpf(0.5)) / grid) for i in range(grid)]
    ws = [weight(x) for x in xs]
    fs = [f(x) for x in xs]
    n = degree + 2
    nodes = [round(i * (grid - 1) / (n - 1)) for i in range(n)]
    for _ in range(40):
        rows = [[xs[j] ** p for p in range(n - 1)] + [(-1) ** i / ws[j]] for i, j in enumerate(nodes)]
        solution = list(mpmath.lu_solve(mpmath.matrix(rows), mpmath.matrix([fs[j] for j in nodes])))[:-1]
        error = [w * (mpmath.polyval(solution[::-1], x) - v) for x, w, v in zip(xs, ws, fs, strict=False)]
        peaks = []
        for i, e in enumerate(error):
            if peaks and (error[peaks[-1]] > 0) == (e > 0):
                if abs(e) > abs(error[peaks[-1]]):
                    peaks[-1] = i
            else:
                peaks.append(i)
        while len(peaks) > n:
            peaks.pop(0 if abs(error[peaks[0]]) < abs(error[peaks[-1]]) else -1)
        if peaks == nodes:
            break
        nodes = peaks
    return solution


def to_float32(x):
    return mpf(struct.unpack("f", struct.pack("f", float(x)))[0])


def fit(name, f, weight, low, high, degree, single):
    low, high = mpf(low), mpf(high)
    rounded = [to_float32(c) if single else mpf(float(c)) for c in remez(f, weight, low, high, degree)]
    xs = [low + (high - low) * i / 999 for i in range(1000)]
    error = max(abs(weight(x) * (mpmath.polyval(rounded[::-1], x) - f(x))) for x in xs)
    print(f"{name}: relative error 2^{float(mpmath.log(error, 2)):.2f}")
    for c in rounded:
        print("   ", float(c).hex())


def remainder(f, taken, power):
    """(f(x) - taken(x)) / x**power, also at 0 (by its limit through a small step at high precision)."""

    def quotient(x):
        x = x if abs(x) > mpf(2) ** -30 else mpf(2) ** -30
        return (f(x) - taken(x)) / x**power

    return quotient


half_ln2 = mpmath.log(2) / 2 * mpf("1.0001")

fit(
    "EXP  expm1(r) = r + r^2 Q(r)",
    remainder(mpmath.expm1, lambda r: r, 2),
    lambda r: abs(r * r / mpmath.expm1(r)) if r else mpf(0),
    -half_ln2,
    half_ln2,
    4,
    single=True,
)
fit(
    "LOG  log1p(f) = f - f^2/2 + f^3 P(f)",
    remainder(mpmath.log1p, lambda f: f - f * f / 2, 3),
    lambda f: abs(f**3 / mpmath.log1p(f)) if f else mpf(0),
    -0.25,
    0.5,
    7,
    single=True,
)


def of_square(f):
    return lambda s: f(mpmath.sqrt(s))


tiny = mpf(2) ** -20
fit(
    "TANH tanh(x) = x + x^3 P(x^2)",
    of_square(remainder(mpmath.tanh, lambda x: x, 3)),
    of_square(lambda x: x**3 / mpmath.tanh(x)),
    tiny,
    mpf("0.625") ** 2,
    4,
    single=True,
)
fit(
    "EXP64 expm1(r) = r + r^2 Q(r)",
    remainder(mpmath.expm1, lambda r: r, 2),
    lambda r: r * r,
    -half_ln2,
    half_ln2,
    6,
    single=False,
)
quarter_pi = mp.pi / 4 * mpf("1.0001")
fit(
    "SIN64 sin(r) = r + r^3 P(r^2)",
    of_square(remainder(mpmath.sin, lambda x: x, 3)),
    of_square(lambda x: x**3 / mpmath.sin(x)),
    tiny,
    quarter_pi**2,
    3,
    single=False,
)
fit(
    "COS64 cos(r) = 1 + r^2 P(r^2)",
    of_square(remainder(mpmath.cos, lambda x: 1, 2)),
    of_square(lambda x: x**2 / mpmath.cos(x)),
    tiny,
    quarter_pi**2,
    4,
    single=False,
)

# Phi(-x) = exp(-x^2/2) * M(x) for 0 <= x <= 14.5; (1 + x) M(x) is a polynomial in q = (x - 5) / (x + 5).
SHIFT = 5


def tail(q):
    x = SHIFT * (1 + q) / (1 - q)
    return (1 + x) * mpmath.erfc(x / mpmath.sqrt(2)) / 2 * mpmath.exp(x * x / 2)


highest = (mpf(14.5) - SHIFT) / (mpf(14.5) + SHIFT)
fit("PHI64 (1 + x) exp(x^2/2) Phi(-x)", tail, lambda q: 1 / tail(q), -1, highest, 12, single=False)
