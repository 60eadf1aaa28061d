"""ONNX Runtime, forward only: it does not train."""
import cases

cases.limit_threads()
import onnx
import onnxruntime
from onnx import TensorProto, helper

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = cases.THREADS
options.inter_op_num_threads = 1


def run_graph(name, nodes, inputs, constants=()):
    """inputs, constants: {name: array}; the last node's output is the result."""
    values = [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in inputs.items()]
    kept = [onnx.numpy_helper.from_array(v, k) for k, v in dict(constants).items()]
    output = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "case", values, [output], kept)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    cases.report(name, lambda: session.run(None, inputs))


node = helper.make_node
numbers = cases.numbers
for name, (m, n, k, layout) in cases.MATMULS.items():
    if layout[1] == "t":
        run_graph(name, [node("Gemm", ["a", "b"], ["y"], transB=1)], {"a": numbers(m, k), "b": numbers(n, k)})
    else:
        run_graph(name, [node("MatMul", ["a", "b"], ["y"])], {"a": numbers(m, k), "b": numbers(k, n)})
x = numbers(cases.ROWS, cases.COLS)
half = numbers(1) * 0 + 0.5
run_graph("elementwise", [node("Add", ["x", "half"], ["s"]), node("Mul", ["s", "y"], ["p"]), node("Add", ["p", "x"], ["q"]),
                          node("Relu", ["q"], ["r"])], {"x": x, "y": x}, {"half": half})
run_graph("softmax", [node("Softmax", ["x"], ["y"], axis=-1)], {"x": x})
run_graph("layernorm", [node("LayerNormalization", ["x", "w", "b"], ["y"], axis=-1, epsilon=1e-5)], {"x": x},
          {"w": numbers(cases.COLS), "b": numbers(cases.COLS)})
run_graph("reduce", [node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)], {"x": x}, {"axes": cases.integers(1, 1).astype("int64")})
c = cases.CONV
run_graph("conv", [node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])], {"x": numbers(c["images"], c["channels"], c["size"], c["size"])},
          {"w": numbers(c["channels"], c["channels"], 3, 3)})
a = cases.ATTENTION
q = numbers(a["heads"], a["positions"], a["features"])
run_graph("attention", [node("Transpose", ["k"], ["t"], perm=[0, 2, 1]), node("MatMul", ["q", "t"], ["s"]), node("Mul", ["s", "c"], ["u"]),
                        node("Softmax", ["u"], ["p"], axis=-1), node("MatMul", ["p", "v"], ["y"])], {"q": q, "k": q, "v": q}, {"c": half / 4})
g = cases.GATHER
run_graph("gather", [node("Gather", ["t", "i"], ["y"], axis=0)],
          {"t": numbers(g["table"], g["features"]), "i": cases.integers(g["table"], g["rows"])})
