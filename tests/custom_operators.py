"""The custom operators of the cases, as PyTorch sees them; examples/custom_ops has them for Kiln."""
import torch


def register_custom_operators():
    library = torch.library.Library("mylib", "DEF")
    library.define("foo_add1(Tensor a) -> Tensor")
    library.impl("foo_add1", lambda a: a + 1, "CompositeExplicitAutograd")
    torch.library.register_fake("mylib::foo_add1", lambda a: torch.empty_like(a), lib=library)

    def define(schema, run, fake):
        name = schema.split("(")[0]
        library.define(schema)
        library.impl(name, run, "CompositeExplicitAutograd")
        torch.library.register_fake("mylib::" + name, fake, lib=library)

    def inc(x, k=1):
        x.add_(k)

    def inc_all(xs, k=1):
        for x in xs:
            x.add_(k)

    def add_to_both(x, y, z):
        x.add_(z)
        y.add_(z)
        return x + y

    def add_with_out(x, out):
        if out is not None:
            out.copy_(x + 1)
        return x + 2

    def nothing(*args):
        return None

    # As examples/custom_ops declares them.
    define("inc_(Tensor(a!) x, int k=1) -> ()", inc, nothing)
    define("inc_all_(Tensor(a!)[] xs, int k=1) -> ()", inc_all, nothing)
    define("add_to_both(Tensor(a!) x, Tensor(b!) y, Tensor z) -> Tensor", add_to_both, lambda x, y, z: torch.empty_like(x))
    define("add_with_out(Tensor x, Tensor(a!)? out) -> Tensor", add_with_out, lambda x, out: torch.empty_like(x))
    return library
