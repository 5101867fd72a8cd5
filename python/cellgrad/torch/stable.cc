/*
 * A forward without gradients of dense tensors on the cpu, by PyTorch's stable ABI: what _run.forward does by ctypes, with the same calls
 * of the library and so the same bits.  `python -m cellgrad.torch.build` makes _extension.abi3.so of it, which _stable.py loads.
 *
 * It links PyTorch's libtorch_cpu and no libcellgrad: `start` is given the functions of the library that the process has.
 * It raises nothing for a wrong argument: `forward` declines, with None, and what Python then does says what is wrong.
 */
#define Py_LIMITED_API 0x030a0000
#include <Python.h>

#include <new>
#include <vector>

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/c/shim.h>

#include <cellgrad.h>

namespace {

const char *const CAPSULE = "cellgrad.torch.plan";

/* ---- what the process has ---- */

decltype(&cg_stream_take) stream_take;
decltype(&cg_stream_give) stream_give;
decltype(&cg_rnn_call_init) call_init;
decltype(&cg_rnn_forward) rnn_forward;
PyObject *tensor_type, *parameter_type;

/* A network on a device; the caller keeps the library's plan open. */
struct Plan {
	cg_context *context;
	cg_rnn *rnn;
	int32_t dtype;                           /* PyTorch's code */
	int64_t itemsize, batch_first, has_state, directions, rows, input, units, width;     /* rows: layers * directions */
	std::vector<int64_t> parts;              /* of each weight, rows and columns */
	size_t params;                           /* bytes */
};

/* ---- tensors ---- */

/* A tensor of PyTorch's, one reference. */
struct Tensor {
	AtenTensorHandle handle = nullptr;
	int64_t dim = 0;
	int64_t *shape = nullptr;
	char *data = nullptr;

	Tensor() = default;
	Tensor(const Tensor &) = delete;
	Tensor &operator=(const Tensor &) = delete;
	~Tensor()
	{
		if (handle)
			aoti_torch_delete_tensor_object(handle);
	}

	/* Is the object a tensor of PyTorch's own classes, dense, on the cpu, of the plan's dtype, and with memory? */
	bool read(PyObject *object, const Plan &plan)
	{
		PyObject *type = reinterpret_cast<PyObject *>(Py_TYPE(object));
		int32_t layout, device, found;
		bool is_dense;
		void *address;

		if ((type != tensor_type && type != parameter_type) || torch_tensor_from_pyobject(object, &handle) ||
		    aoti_torch_get_layout(handle, &layout) || layout != aoti_torch_layout_strided() ||
		    aoti_torch_get_device_type(handle, &device) || device != aoti_torch_device_type_cpu() ||
		    aoti_torch_get_dtype(handle, &found) || found != plan.dtype ||
		    aoti_torch_is_contiguous(handle, &is_dense) || !is_dense ||
		    aoti_torch_get_dim(handle, &dim) || aoti_torch_get_sizes(handle, &shape) || aoti_torch_get_data_ptr(handle, &address))
			return false;
		data = static_cast<char *>(address);
		return data != nullptr;
	}

	bool is(int64_t a, int64_t b, int64_t c) const
	{
		return dim == 3 && shape[0] == a && shape[1] == b && shape[2] == c;
	}

	/* Makes one.  Of a network without a state c is one of no elements, as _run.forward makes it. */
	bool make(int64_t n, int64_t a, int64_t b, int64_t c, const Plan &plan)
	{
		const int64_t sizes[] = { a, b, c }, strides[] = { b * c, c, 1 }, one = 1;
		void *address;

		if (aoti_torch_empty_strided(n, sizes, n == 1 ? &one : strides, plan.dtype, aoti_torch_device_type_cpu(), 0, &handle) ||
		    aoti_torch_get_data_ptr(handle, &address))
			return false;
		data = static_cast<char *>(address);
		return true;
	}

	PyObject *object() const
	{
		void *made = nullptr;

		return torch_tensor_to_pyobject(handle, nullptr, &made) ? nullptr : static_cast<PyObject *>(made);
	}
};

cg_mem mem(const Tensor &tensor, size_t bytes)
{
	cg_mem made = {};

	made.data = tensor.data;
	made.bytes = bytes;
	made.place = CG_HOST;
	return made;
}

/* ---- calls ---- */

/* The address of weights of the plan's shapes that lie one behind the other; nullptr: these do not, or are others. */
char *flat(PyObject *weights, const Plan &plan)
{
	const bool is_list = PyList_Check(weights);
	char *first = nullptr;
	size_t at = 0;

	if ((!is_list && !PyTuple_Check(weights)) || size_t(is_list ? PyList_Size(weights) : PyTuple_Size(weights)) != plan.parts.size() / 2)
		return nullptr;
	for (size_t k = 0; k < plan.parts.size() / 2; k++) {
		const int64_t rows = plan.parts[2 * k], columns = plan.parts[2 * k + 1];
		Tensor weight;

		if (!weight.read(is_list ? PyList_GetItem(weights, k) : PyTuple_GetItem(weights, k), plan) ||
		    !(weight.dim == 2 ? weight.shape[0] == rows && weight.shape[1] == columns :
		      weight.dim == 1 && weight.shape[0] == rows && columns == 1))
			return nullptr;
		if (!first)
			first = weight.data;
		if (weight.data != first + at)
			return nullptr;
		at += size_t(rows * columns * plan.itemsize);
	}
	return first;
}

/* The call on a stream that is taken for it, while other threads of Python may run. */
int run(const Plan &plan, const cg_rnn_call &call)
{
	PyThreadState *state = PyEval_SaveThread();
	cg_stream *stream;
	int status = stream_take(plan.context, &stream);

	if (!status) {
		status = rnn_forward(stream, plan.rnn, &call);
		const int given = stream_give(stream);
		status = status ? status : given;
	}
	PyEval_RestoreThread(state);
	return status;
}

/* output, h and c, or None: decline. */
PyObject *forward_of(const Plan &plan, PyObject *input, PyObject *weights, PyObject *h0, PyObject *c0)
{
	Tensor x, state_h, state_c, output, h, c;
	cg_rnn_call call;

	if (!x.read(input, plan) || x.dim != 3 || x.shape[2] != plan.input || !x.shape[0] || !x.shape[1])
		return Py_None;
	const int64_t T = x.shape[plan.batch_first], B = x.shape[1 - plan.batch_first], width = plan.directions * plan.width;
	const size_t h_bytes = size_t(plan.rows * B * plan.width * plan.itemsize), c_bytes = size_t(plan.rows * B * plan.units * plan.itemsize);
	if ((h0 != Py_None && (!state_h.read(h0, plan) || !state_h.is(plan.rows, B, plan.width))) ||
	    (c0 != Py_None && (!plan.has_state || !state_c.read(c0, plan) || !state_c.is(plan.rows, B, plan.units))))
		return Py_None;
	call_init(&call, sizeof call);
	call.T = T;
	call.B = B;
	call.params.data = flat(weights, plan);
	call.params.bytes = plan.params;
	call.params.place = CG_HOST;
	if (!call.params.data || !output.make(3, x.shape[0], x.shape[1], width, plan) || !h.make(3, plan.rows, B, plan.width, plan) ||
	    !(plan.has_state ? c.make(3, plan.rows, B, plan.units, plan) : c.make(1, 0, 0, 0, plan)))
		return Py_None;
	call.input = mem(x, size_t(T * B * plan.input * plan.itemsize));
	if (state_h.data)
		call.input_h = mem(state_h, h_bytes);
	if (state_c.data)
		call.input_c = mem(state_c, c_bytes);
	call.output = mem(output, size_t(T * B * width * plan.itemsize));
	call.output_h = mem(h, h_bytes);
	if (plan.has_state)
		call.output_c = mem(c, c_bytes);
	if (run(plan, call))
		return Py_None;
	return Py_BuildValue("(NNN)", output.object(), h.object(), c.object());
}

/* ---- what Python sees ---- */

Plan *plan_of(PyObject *capsule)
{
	return static_cast<Plan *>(PyCapsule_GetPointer(capsule, CAPSULE));
}

void close(PyObject *capsule)
{
	delete plan_of(capsule);
}

/* start(addresses of cg_stream_take, cg_stream_give, cg_rnn_call_init and cg_rnn_forward, the class of tensors, that of parameters) */
PyObject *start(PyObject *, PyObject *arguments)
{
	unsigned long long take, give, init, forward;
	PyObject *tensor, *parameter;

	if (!PyArg_ParseTuple(arguments, "KKKKOO", &take, &give, &init, &forward, &tensor, &parameter))
		return nullptr;
	stream_take = reinterpret_cast<decltype(stream_take)>(take);
	stream_give = reinterpret_cast<decltype(stream_give)>(give);
	call_init = reinterpret_cast<decltype(call_init)>(init);
	rnn_forward = reinterpret_cast<decltype(rnn_forward)>(forward);
	Py_INCREF(tensor);
	Py_INCREF(parameter);
	tensor_type = tensor;
	parameter_type = parameter;
	Py_RETURN_NONE;
}

/* plan(context, rnn, dtype, batch_first, has_state, directions, rows, input, units, width, a tuple of each weight's rows and columns) */
PyObject *plan(PyObject *, PyObject *arguments)
{
	unsigned long long context, rnn;
	long long batch_first, has_state, directions, rows, input, units, width;
	int dtype;
	PyObject *parts;

	if (!PyArg_ParseTuple(arguments, "KKiLLLLLLLO!", &context, &rnn, &dtype, &batch_first, &has_state, &directions, &rows, &input, &units,
	                      &width, &PyTuple_Type, &parts))
		return nullptr;
	const struct { int ours; int32_t theirs; int64_t size; } dtypes[] = {
		{ CG_F32, aoti_torch_dtype_float32(), 4 }, { CG_F64, aoti_torch_dtype_float64(), 8 },
		{ CG_F16, aoti_torch_dtype_float16(), 2 }, { CG_BF16, aoti_torch_dtype_bfloat16(), 2 },
	};
	try {
		Plan made = { reinterpret_cast<cg_context *>(context), reinterpret_cast<cg_rnn *>(rnn), 0, 0, batch_first != 0, has_state,
		              directions, rows, input, units, width, {}, 0 };
		for (const auto &row : dtypes)
			if (row.ours == dtype) {
				made.dtype = row.theirs;
				made.itemsize = row.size;
			}
		for (Py_ssize_t k = 0; k < PyTuple_Size(parts); k++)
			made.parts.push_back(PyLong_AsLongLong(PyTuple_GetItem(parts, k)));
		for (size_t k = 0; k + 1 < made.parts.size(); k += 2)
			made.params += size_t(made.parts[k] * made.parts[k + 1] * made.itemsize);
		return PyErr_Occurred() ? nullptr : PyCapsule_New(new Plan(made), CAPSULE, close);
	} catch (const std::bad_alloc &) {
		return PyErr_NoMemory();
	}
}

/* forward(plan, input, list or tuple of weights, h0 or None, c0 or None) */
PyObject *forward(PyObject *, PyObject *const *arguments, Py_ssize_t count)
{
	Plan *of = count == 5 ? plan_of(arguments[0]) : nullptr;

	if (!of)
		return PyErr_Format(PyExc_TypeError, "forward: expected a plan, an input, weights, h0 and c0");
	PyObject *result = forward_of(*of, arguments[1], arguments[2], arguments[3], arguments[4]);
	if (result == Py_None)
		Py_INCREF(result);
	return result;
}

PyMethodDef methods[] = {
	{ "start", start, METH_VARARGS, nullptr },
	{ "plan", plan, METH_VARARGS, nullptr },
	{ "forward", reinterpret_cast<PyCFunction>(reinterpret_cast<void *>(forward)), METH_FASTCALL, nullptr },
	{ nullptr, nullptr, 0, nullptr },
};

PyModuleDef module = { PyModuleDef_HEAD_INIT, "_extension", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr };

}

PyMODINIT_FUNC PyInit__extension()
{
	PyObject *made = PyModule_Create(&module);

	/* The version of the header, whose structs this was compiled with. */
	if (made && PyModule_AddObject(made, "VERSION", PyUnicode_FromFormat("%d.%d.%d", CG_VERSION_MAJOR, CG_VERSION_MINOR, CG_VERSION_PATCH))) {
		Py_DECREF(made);
		return nullptr;
	}
	return made;
}
