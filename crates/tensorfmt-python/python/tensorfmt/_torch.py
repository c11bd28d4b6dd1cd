"""Tensors of torch."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def prepared(tensor: Any) -> Any:
    """What the extension takes for a tensor of torch, from whichever device."""
    import torch

    tensor = tensor.detach()
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise TypeError("only dense tensors can be saved")
    tensor = tensor.cpu().resolve_conj().resolve_neg()
    name = str(tensor.dtype).removeprefix("torch.")
    if name.startswith("float8") or name == "bool":
        # Not every release has these in DLPack.
        flat = tensor.contiguous().view(torch.uint8).reshape(-1)
        return name, tuple(tensor.shape), "C", memoryview(flat.numpy())
    return tensor


def of(tensor: Any, device: Any = "cpu") -> Any:
    """A tensor of an open file as one of torch that may be written to."""
    import torch

    name = tensor.dtype
    wanted = getattr(torch, name, None)
    if not isinstance(wanted, torch.dtype):
        raise TypeError(f"torch has no {name}")
    if name.startswith("float8") or name == "bool" or tensor.nbytes == 0:
        # Not every release has these in DLPack.
        made = _of_bytes(torch, tensor, wanted)
    else:
        made = torch.from_dlpack(_Unversioned(tensor))
    return made if str(device) == "cpu" else made.to(device)


class _Unversioned:
    """A tensor whose consumer gets bytes of its own, also where the file is mapped."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def __dlpack__(self, **options: Any) -> Any:
        return self._tensor.__dlpack__()

    def __dlpack_device__(self) -> Any:
        return self._tensor.__dlpack_device__()


def _of_bytes(torch: Any, tensor: Any, wanted: Any) -> Any:
    if tensor.nbytes == 0:
        return torch.empty(tensor.shape, dtype=wanted)
    raw = torch.frombuffer(bytearray(tensor.tobytes()), dtype=torch.uint8)
    if tensor.dtype == "bool":
        raw = raw.ne(0)
    flat = raw.view(wanted)
    if tensor.order == "F":
        return flat.reshape(tensor.shape[::-1]).permute(*reversed(range(tensor.ndim)))
    return flat.reshape(tensor.shape)
