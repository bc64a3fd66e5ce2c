"""ONNX graphs run by tenon: the bridge library loaded with ctypes."""
import ctypes
import os

import ml_dtypes
import numpy as np

# TensorProto.DataType to NumPy, as the bridge passes arrays (types below a byte unpacked).
TYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64,
         9: np.bool_, 10: np.float16, 11: np.float64, 12: np.uint32, 13: np.uint64,
         16: ml_dtypes.bfloat16, 17: ml_dtypes.float8_e4m3fn, 18: ml_dtypes.float8_e4m3fnuz,
         19: ml_dtypes.float8_e5m2, 20: ml_dtypes.float8_e5m2fnuz, 21: ml_dtypes.uint4,
         22: ml_dtypes.int4, 23: ml_dtypes.float4_e2m1fn, 24: ml_dtypes.float8_e8m0fnu,
         25: ml_dtypes.uint2, 26: ml_dtypes.int2}
NARROW = {np.dtype(ml_dtypes.int4): np.int8, np.dtype(ml_dtypes.int2): np.int8}
NUMBERS = {np.dtype(dtype): number for number, dtype in TYPES.items()}


class Array(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("data", ctypes.c_void_p)]


def load():
    library = ctypes.CDLL(os.environ["TENON_ONNX_BRIDGE"])
    library.tenon_bridge_error.restype = ctypes.c_char_p
    library.tenon_bridge_input_name.restype = ctypes.c_char_p
    library.tenon_bridge_input_name.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.tenon_bridge_input_count.argtypes = [ctypes.c_void_p]
    library.tenon_bridge_close.argtypes = [ctypes.c_void_p]
    library.tenon_bridge_open.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p,
                                          ctypes.c_int, ctypes.c_char_p,
                                          ctypes.POINTER(ctypes.c_void_p)]
    library.tenon_bridge_run.argtypes = [ctypes.c_void_p, ctypes.POINTER(Array), ctypes.c_int,
                                         ctypes.POINTER(ctypes.c_int)]
    library.tenon_bridge_output.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(Array)]
    library.tenon_bridge_stats.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64),
                                           ctypes.POINTER(ctypes.c_double),
                                           ctypes.POINTER(ctypes.c_int64)]
    return library


class TenonError(RuntimeError):
    """What the library answered; its text begins with the error's kind."""


class Session:
    library = None

    def __init__(self, model=None, path=None, level=3, plugin=None):
        Session.library = Session.library or load()
        self.handle = ctypes.c_void_p()
        code = self.library.tenon_bridge_open(model, len(model or b""),
                                              os.fsencode(path) if path else None, level,
                                              os.fsencode(plugin) if plugin else None,
                                              ctypes.byref(self.handle))
        self.check(code)
        count = self.library.tenon_bridge_input_count(self.handle)
        self.names = [self.library.tenon_bridge_input_name(self.handle, i).decode()
                      for i in range(count)]

    def check(self, code):
        if code != 0:
            raise TenonError(self.library.tenon_bridge_error().decode(errors="replace"))

    def __del__(self):
        if self.handle:
            self.library.tenon_bridge_close(self.handle)

    def run(self, inputs):
        """Arrays by name, or in order, to the list of outputs."""
        if isinstance(inputs, dict):
            inputs = [inputs[name] for name in self.names]
        arrays = (Array * max(len(inputs), 1))()
        keep = []
        for slot, value in zip(arrays, inputs):
            value = np.array(value, order="C")
            narrow = NARROW.get(value.dtype)
            if value.dtype not in NUMBERS:
                raise TenonError(f"unsupported: NumPy's {value.dtype}")
            shape = (ctypes.c_int64 * max(value.ndim, 1))(*value.shape)
            slot.type, slot.rank = NUMBERS[value.dtype], value.ndim
            # ml_dtypes keeps the low bits only; the library's bytes are sign-extended.
            value = value if narrow is None else value.astype(narrow)
            keep.append((value, shape))
            slot.shape, slot.data = shape, value.ctypes.data
        count = ctypes.c_int()
        self.check(self.library.tenon_bridge_run(self.handle, arrays, len(inputs),
                                                 ctypes.byref(count)))
        return [self.output(i) for i in range(count.value)]

    def output(self, i):
        array = Array()
        self.library.tenon_bridge_output(self.handle, i, ctypes.byref(array))
        shape = [array.shape[d] for d in range(array.rank)]
        dtype = np.dtype(TYPES[array.type])
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        data = ctypes.string_at(array.data, size) if size else b""
        return np.frombuffer(data, dtype=dtype).reshape(shape).copy()

    def stats(self):
        launches, flops, peak = ctypes.c_int64(), ctypes.c_double(), ctypes.c_int64()
        self.library.tenon_bridge_stats(self.handle, ctypes.byref(launches), ctypes.byref(flops),
                                        ctypes.byref(peak))
        return {"launches": launches.value, "flops": flops.value, "peak_bytes": peak.value}
