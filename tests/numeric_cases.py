"""Cases of results whose every digit counts: next to 0, of tiny and of huge arguments, at infinities. Compared without an
absolute tolerance. Listed by generate_cases.py."""
import torch

NAN, INF = float("nan"), float("inf")


def sums_of_exponentials_near_zero(of):
    """Where the larger term is 0, what the smaller one adds is all there is of the sum."""
    def forward(self, x, y, rows):
        results = []
        for t in (torch.float32, torch.float64):
            results += [torch.logaddexp(x.to(t), y.to(t)), torch.logaddexp2(x.to(t), y.to(t)), torch.logcumsumexp(rows.to(t), 1)]
        return results
    x = torch.tensor([0.0, 0.0, 0.0, 0.0, 1e-10, -1e-3, -38.0, 3.0, INF, INF, -INF, -INF, NAN, 1.0, 0.0, -14.5, 0.0])
    y = torch.tensor([-14.5, -20.0, -38.0, -80.0, -30.0, -9.0, 0.0, 3.0, INF, -INF, -INF, 3.0, 0.0, NAN, 0.0, 0.0, -0.125])
    rows = torch.tensor([[0.0, -14.5, -20.0, -38.0], [-38.0, -20.0, 0.0, -30.0], [-38.0, 0.0, -80.0, 0.0], [0.0, -38.0, 3.0, 1.0],
                         [-INF, -INF, 0.0, -40.0], [-INF, 0.0, INF, INF], [0.0, NAN, 1.0, INF], [INF, -INF, 0.0, 0.0]])
    return of(forward, [(x, y, rows)], "logarithms of sums of exponentials that are next to 0",
              tolerance={"rtol": 2e-6, "atol": 0})


COMPLEX_FUNCTIONS = ("exp", "sinh", "cosh", "tanh", "sin", "cos", "tan", "sqrt", "rsqrt", "log", "log2", "log10", "asin", "acos",
                     "atan", "asinh", "acosh", "atanh", "abs", "angle", "sgn", "reciprocal", "sinc")


def complex_at_infinities(of):
    """Every pair of what is 0, ordinary, infinite, NaN and nearly too large, as real and imaginary part."""
    def forward(self, narrow, wide):
        results = [getattr(torch, name)(z) for z in (narrow, wide) for name in COMPLEX_FUNCTIONS]
        # Part by part: one may be infinite where the other is rounded.
        return [torch.view_as_real(x) if x.is_complex() else x for x in results]

    def pairs(dtype, values):
        return torch.tensor([complex(a, b) for a in values for b in values], dtype=dtype)
    return of(forward, [(pairs(torch.complex64, [0.0, -0.0, 0.9, -0.8, INF, -INF, NAN, 88.8, -88.8, 3e38]),
                         pairs(torch.complex128, [0.0, -0.0, 0.9, -0.8, INF, -INF, NAN, 709.9, -709.9, 1.5e308]))],
              "complex functions at infinities, at NaN and where a part overflows on the way")


def complex_sigmoid_far_out(of):
    def forward(self, z):
        return z.sigmoid(), torch.nn.functional.silu(z), z.log1p(), z.expm1()
    z = torch.tensor([80 + 1j, 80.5 - 3j, 60 + 0j, -3 + 1j, -30 + 2j, 0j])
    return of(forward, [(z,)], "complex sigmoid, silu, log1p and expm1 of large numbers")


def complex_powers_far_out(of):
    def forward(self, z, w):
        return 2.0 ** w, z ** w, z ** 2.5, z ** (1 + 2j)
    w = torch.tensor([complex(INF, INF), complex(-INF, INF), complex(INF, NAN), complex(-INF, NAN), 2 - 1j, 0.5j, -1.5 + 0j])
    z = torch.tensor([0.5 + 1j, 0.5 + 1j, 1j, 2 + 1j, 1e12 + 1j, 1e-12 + 0j, -3 + 2j])
    return of(forward, [(z, w)], "complex powers with infinite exponents")


def complex_near_zero(of):
    """Each part with its digits: of what is next to 0, to 1, to -1 and to i."""
    def forward(self, narrow):
        return [getattr(torch, name)(z) for z in (narrow, narrow.to(torch.complex128))
                for name in ("asin", "atan", "asinh", "atanh", "log", "sqrt", "sinh", "tanh", "sigmoid")]
    steps = torch.tensor([1e-3 + 0j, 1e-3 + 2e-3j, -1e-8 + 1e-9j, 1e-20 - 1e-15j, -1e-30 - 1e-30j, 1e-10j, 5e-4 - 3e-5j])
    return of(forward, [(torch.cat([steps, steps.abs() + 1e-3j + 1, 1j * (1.01 + steps.abs())]),)],
              "complex functions of small numbers and next to 1 and i", tolerance={"rtol": 4e-6, "atol": 0})


def weights_of_no_bins(of):
    """Of an empty input eager counts, whatever the weights."""
    def forward(self, numbers, weights):
        return torch.bincount(numbers, weights), torch.bincount(numbers, weights.double(), minlength=4)
    return of(forward, [(torch.zeros(0, dtype=torch.int64), torch.zeros(0))], "bincount of nothing, with weights")


def polynomials_far_out(of):
    def forward(self, x, degrees):
        names = ("chebyshev_polynomial_t", "chebyshev_polynomial_u", "hermite_polynomial_h", "hermite_polynomial_he",
                 "legendre_polynomial_p")
        return [getattr(torch.special, name)(x, degrees) for name in names]
    x = torch.tensor([-1e200, 1e200, -INF, INF, -1e90, NAN], dtype=torch.float64)
    return of(forward, [(x[:, None], torch.arange(4))], "orthogonal polynomials whose values are infinite")


def next_to_poles(of):
    """As near to a pole as a number can be, and where what is between overflows but the result need not."""
    def forward(self, small, far, narrow, q):
        results = []
        for x in (small, small.double()):
            results += [torch.digamma(x), torch.special.erfcx(far.to(x.dtype)), torch.special.zeta(torch.full_like(q, INF).to(x.dtype), q.to(x.dtype))]
        for z in (narrow, narrow.to(torch.complex128)):
            results += [torch.view_as_real(torch.atanh(z)), torch.view_as_real(torch.atan(z * 1j))]
        return results
    small = torch.tensor([-1e-38, -1e-30, -1e-20, -1e-12, -4e-9, -1e-7, -1e-3, 1e-38, 1e-12, -0.0, 0.0, -1e-37, -3e-15, 2.0, -0.25, 1e-4, -1e-5])
    far = torch.tensor([-26.65, -26.7, -26.75, -26.8, -26.85, -26.9, -26.95, -26.99, -27.0, -27.5, -9.0, -9.3, -9.4, 3.0, -26.643, -1.0, -26.66])
    tiny = (1e-42, 1e-40, 1e-39, 1e-38, 1e-30, 1e-10)
    narrow = torch.tensor([complex(s, t) for s in (1.0, -1.0) for t in tiny] + [0.5 + 1e-42j, 1e-42 + 0j, 2 + 1e-40j, 1 - 1e-41j, 0.25j])
    return of(forward, [(small, far, narrow, torch.tensor([1.0, 0.5, 0.25]))], "functions next to their poles",
              tolerance={"rtol": 2e-6, "atol": 0})


def add_cases(case, of):
    def add(make):
        def made():
            return make(of)
        made.__name__ = make.__name__
        case(made)
    for make in (sums_of_exponentials_near_zero, complex_at_infinities, complex_sigmoid_far_out, complex_powers_far_out,
                 complex_near_zero, weights_of_no_bins, polynomials_far_out, next_to_poles):
        add(make)
