/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forward and backward pass on dense tensors on the cpu, by PyTorch's stable ABI.  They make the same calls of the library as _run.py
 * does by ctypes, and so give the same bits.  `python -m cellgrad.torch.build` compiles this file to _extension.abi3.so, which _stable.py
 * loads.
 *
 * The extension links PyTorch's libtorch_cpu but not libcellgrad: `start` takes the addresses of the library's functions.
 * Neither pass raises for a wrong tensor: it returns None, and the caller then uses ctypes, which raises the error.
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

/* ---- the library's functions, PyTorch's classes, a network ---- */

decltype(&cg_stream_take) stream_take;
decltype(&cg_stream_give) stream_give;
decltype(&cg_rnn_call_init) call_init;
decltype(&cg_rnn_sizes) rnn_sizes;
decltype(&cg_rnn_forward) rnn_forward;
decltype(&cg_rnn_backward) rnn_backward;
decltype(&cg_prefer_huge_pages) prefer_huge_pages;
PyObject *tensor_type, *parameter_type;

/* A network on a device whose memory is the host's; the caller keeps the library's plan open. */
struct Plan {
	cg_context *context;
	cg_rnn *rnn;
	int32_t dtype;                           /* PyTorch's code of the dtype */
	int64_t itemsize, has_reserve, batch_first, has_state, directions, rows, input, units, width;     /* rows: layers * directions */
	std::vector<int64_t> parts;              /* rows and columns of each weight */
	int64_t params;                          /* elements of params */
};

/* ---- tensors ---- */

/* A reference to a tensor of PyTorch. */
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

	/* Refers to the object, if it is a tensor of PyTorch's own classes, dense, on the cpu, of this dtype, and with memory; else false. */
	bool read(PyObject *object, int32_t dtype)
	{
		PyObject *type = reinterpret_cast<PyObject *>(Py_TYPE(object));
		int32_t layout, device, found;
		bool is_dense;
		void *address;

		if ((type != tensor_type && type != parameter_type) || torch_tensor_from_pyobject(object, &handle) ||
		    aoti_torch_get_layout(handle, &layout) || layout != aoti_torch_layout_strided() ||
		    aoti_torch_get_device_type(handle, &device) || device != aoti_torch_device_type_cpu() ||
		    aoti_torch_get_dtype(handle, &found) || found != dtype ||
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

	/* Makes a tensor of three dimensions. */
	bool make(int64_t a, int64_t b, int64_t c, int32_t dtype)
	{
		const int64_t sizes[] = { a, b, c }, strides[] = { b * c, c, 1 };

		return make(3, sizes, strides, dtype);
	}

	/* Makes a tensor of one dimension. */
	bool make(int64_t n, int32_t dtype)
	{
		const int64_t stride = 1;

		return make(1, &n, &stride, dtype);
	}

	/* Makes a view of a matrix, or, if n is 1, of a vector of `rows` elements, at an offset in elements. */
	bool view(const Tensor &whole, int64_t n, int64_t rows, int64_t columns, int64_t offset)
	{
		const int64_t sizes[] = { rows, columns }, strides[] = { n == 1 ? 1 : columns, 1 };

		return !aoti_torch__reinterpret_tensor(whole.handle, n, sizes, strides, offset, &handle);
	}

	PyObject *object() const
	{
		void *made = nullptr;

		return torch_tensor_to_pyobject(handle, nullptr, &made) ? nullptr : static_cast<PyObject *>(made);
	}

private:
	bool make(int64_t n, const int64_t *sizes, const int64_t *strides, int32_t dtype)
	{
		void *address;
		int64_t bytes;

		if (aoti_torch_empty_strided(n, sizes, strides, dtype, aoti_torch_device_type_cpu(), 0, &handle) ||
		    aoti_torch_get_data_ptr(handle, &address) || aoti_torch_get_storage_size(handle, &bytes))
			return false;
		data = static_cast<char *>(address);
		prefer_huge_pages(data, size_t(bytes));
		return true;
	}
};

/* A tensor as an argument of the library; without a tensor an absent one. */
cg_mem mem(const Tensor &tensor, int64_t bytes)
{
	cg_mem made = {};

	if (tensor.data) {
		made.data = tensor.data;
		made.bytes = size_t(bytes);
		made.place = CG_HOST;
	}
	return made;
}

/* ---- calls ---- */

/* The k-th element of a list or a tuple of weights. */
PyObject *weight_of(PyObject *weights, size_t k)
{
	return PyList_Check(weights) ? PyList_GetItem(weights, Py_ssize_t(k)) : PyTuple_GetItem(weights, Py_ssize_t(k));
}

/* The address of the weights, if they have the plan's shapes and are one after the other in memory; else nullptr. */
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

		if (!weight.read(weight_of(weights, k), plan.dtype) ||
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

/* Runs the pass on a stream that is taken for it, without the interpreter's lock. */
int run(const Plan &plan, decltype(rnn_forward) pass, const cg_rnn_call &call)
{
	PyThreadState *state = PyEval_SaveThread();
	cg_stream *stream;
	int status = stream_take(plan.context, &stream);

	if (!status) {
		status = pass(stream, plan.rnn, &call);
		const int given = stream_give(stream);
		status = status ? status : given;
	}
	PyEval_RestoreThread(state);
	return status;
}

/* The arguments of both passes: sizes, input, weights and initial states. */
struct Call {
	const Plan &plan;
	cg_rnn_call call;
	Tensor x, h0, c0;
	int64_t h_bytes = 0, c_bytes = 0, input_bytes = 0, output_bytes = 0;

	explicit Call(const Plan &of) : plan(of)
	{
		call_init(&call, sizeof call);
	}

	/* Reads and checks the arguments; false: the extension does not support them. */
	bool begin(PyObject *input, PyObject *weights, PyObject *h, PyObject *c, uint64_t counter)
	{
		if (!x.read(input, plan.dtype) || x.dim != 3 || x.shape[2] != plan.input || !x.shape[0] || !x.shape[1])
			return false;
		call.T = x.shape[plan.batch_first];
		call.B = x.shape[1 - plan.batch_first];
		call.counter = counter;
		if (!take_state(h0, h, plan.width) || (c != Py_None && !plan.has_state) || !take_state(c0, c, plan.units))
			return false;
		call.params.data = flat(weights, plan);
		call.params.bytes = size_t(plan.params * plan.itemsize);
		call.params.place = CG_HOST;
		h_bytes = plan.rows * call.B * plan.width * plan.itemsize;
		c_bytes = plan.rows * call.B * plan.units * plan.itemsize;
		input_bytes = call.T * call.B * plan.input * plan.itemsize;
		output_bytes = call.T * call.B * plan.directions * plan.width * plan.itemsize;
		call.input = mem(x, input_bytes);
		call.input_h = mem(h0, h_bytes);
		call.input_c = mem(c0, c_bytes);
		return call.params.data != nullptr;
	}

	/* Reads a state, a tensor [rows, B, width] or None. */
	bool take_state(Tensor &state, PyObject *object, int64_t width)
	{
		return object == Py_None || (state.read(object, plan.dtype) && state.is(plan.rows, call.B, width));
	}
};

/* Computes output, h and c, and the reserve space if the plan has one: in the tensor `kept`, or in a new one if that is None.  Returns None
 * if the extension does not support the arguments, or if the call fails. */
PyObject *forward_of(const Plan &plan, PyObject *input, PyObject *weights, PyObject *h0, PyObject *c0, uint64_t counter, PyObject *kept)
{
	Call of(plan);
	cg_rnn_call &call = of.call;
	struct cg_rnn_sizes sizes;
	Tensor output, h, c, reserve;

	if (!of.begin(input, weights, h0, c0, counter) ||
	    !output.make(of.x.shape[0], of.x.shape[1], plan.directions * plan.width, plan.dtype) ||
	    !h.make(plan.rows, call.B, plan.width, plan.dtype) ||
	    /* Without a cell state, c has no elements. */
	    !(plan.has_state ? c.make(plan.rows, call.B, plan.units, plan.dtype) : c.make(0, plan.dtype)))
		return Py_None;
	call.output = mem(output, of.output_bytes);
	call.output_h = mem(h, of.h_bytes);
	if (plan.has_state)
		call.output_c = mem(c, of.c_bytes);
	if (plan.has_reserve && kept != Py_None) {
		if (!reserve.read(kept, aoti_torch_dtype_uint8()) || reserve.dim != 1)
			return Py_None;
		call.reserve = mem(reserve, reserve.shape[0]);
	} else if (plan.has_reserve) {
		if (rnn_sizes(plan.rnn, call.T, call.B, nullptr, &sizes) || !reserve.make(int64_t(sizes.reserve), aoti_torch_dtype_uint8()))
			return Py_None;
		call.reserve = mem(reserve, int64_t(sizes.reserve));
	}
	if (run(plan, rnn_forward, call))
		return Py_None;
	return plan.has_reserve ? Py_BuildValue("(NNNN)", output.object(), h.object(), c.object(), reserve.object()) :
		Py_BuildValue("(NNN)", output.object(), h.object(), c.object());
}

/* Makes the tuple of gradients of the input, h0, c0 and each weight, with None where `needs` is false; nullptr on failure. */
PyObject *gradients(const Tensor *made, const Tensor &params, const Plan &plan, PyObject *weights, PyObject *needs)
{
	const size_t count = plan.parts.size() / 2;
	PyObject *result = PyTuple_New(Py_ssize_t(3 + count));
	int64_t at = 0;

	for (size_t k = 0; result && k < 3 + count; k++) {
		const int64_t rows = k < 3 ? 0 : plan.parts[2 * (k - 3)], columns = k < 3 ? 0 : plan.parts[2 * (k - 3) + 1];
		PyObject *object = Py_None;
		Tensor weight, part;

		if (PyTuple_GetItem(needs, Py_ssize_t(k)) != Py_True)
			Py_INCREF(object);
		else if (k < 3)
			object = made[k].object();
		else
			object = weight.read(weight_of(weights, k - 3), plan.dtype) && part.view(params, weight.dim, rows, columns, at) ?
				part.object() : nullptr;
		at += rows * columns;
		if (!object || PyTuple_SetItem(result, Py_ssize_t(k), object)) {
			Py_DECREF(result);
			result = nullptr;
		}
	}
	return result;
}

/* Computes the gradients from the upstream gradients d_output, d_h and d_c, each a tensor or None.  Returns
 * None if the extension does not support the arguments, or if the call fails. */
PyObject *backward_of(const Plan &plan, PyObject *const *upstream, PyObject *input, PyObject *weights, PyObject *h0, PyObject *c0,
                      PyObject *kept, uint64_t counter, PyObject *needs)
{
	Call of(plan);
	cg_rnn_call &call = of.call;
	Tensor reserve, d_output, d_h, d_c, made[3], params;
	bool is_needed[4] = {};

	if (!PyTuple_Check(needs) || size_t(PyTuple_Size(needs)) != 3 + plan.parts.size() / 2 || !of.begin(input, weights, h0, c0, counter) ||
	    !reserve.read(kept, aoti_torch_dtype_uint8()) || reserve.dim != 1 ||
	    (upstream[0] != Py_None && (!d_output.read(upstream[0], plan.dtype) ||
	                                !d_output.is(of.x.shape[0], of.x.shape[1], plan.directions * plan.width))) ||
	    !of.take_state(d_h, upstream[1], plan.width) || (upstream[2] != Py_None && !plan.has_state) ||
	    !of.take_state(d_c, upstream[2], plan.units))
		return Py_None;
	for (Py_ssize_t k = 0; k < PyTuple_Size(needs); k++)
		is_needed[k < 3 ? k : 3] |= PyTuple_GetItem(needs, k) == Py_True;
	if ((is_needed[0] && !made[0].make(of.x.shape[0], of.x.shape[1], plan.input, plan.dtype)) ||
	    (is_needed[1] && !made[1].make(plan.rows, call.B, plan.width, plan.dtype)) ||
	    (is_needed[2] && !made[2].make(plan.rows, call.B, plan.units, plan.dtype)) ||
	    (is_needed[3] && !params.make(plan.params, plan.dtype)))
		return Py_None;
	call.reserve = mem(reserve, reserve.shape[0]);
	call.output_backprop = mem(d_output, of.output_bytes);
	call.output_h_backprop = mem(d_h, of.h_bytes);
	call.output_c_backprop = mem(d_c, of.c_bytes);
	call.input_backprop = mem(made[0], of.input_bytes);
	call.input_h_backprop = mem(made[1], of.h_bytes);
	call.input_c_backprop = mem(made[2], of.c_bytes);
	call.params_backprop = mem(params, plan.params * plan.itemsize);
	return run(plan, rnn_backward, call) ? Py_None : gradients(made, params, plan, weights, needs);
}

/* ---- the module ---- */

Plan *plan_of(PyObject *capsule)
{
	return static_cast<Plan *>(PyCapsule_GetPointer(capsule, CAPSULE));
}

void close(PyObject *capsule)
{
	delete plan_of(capsule);
}

/* start(addresses of cg_stream_take, cg_stream_give, cg_rnn_call_init, cg_rnn_sizes, cg_rnn_forward, cg_rnn_backward and
 * cg_prefer_huge_pages, the class of tensors, that of parameters) */
PyObject *start(PyObject *, PyObject *arguments)
{
	unsigned long long take, give, init, sizes, forward, backward, pages;
	PyObject *tensor, *parameter;

	if (!PyArg_ParseTuple(arguments, "KKKKKKKOO", &take, &give, &init, &sizes, &forward, &backward, &pages, &tensor, &parameter))
		return nullptr;
	stream_take = reinterpret_cast<decltype(stream_take)>(take);
	stream_give = reinterpret_cast<decltype(stream_give)>(give);
	call_init = reinterpret_cast<decltype(call_init)>(init);
	rnn_sizes = reinterpret_cast<decltype(rnn_sizes)>(sizes);
	rnn_forward = reinterpret_cast<decltype(rnn_forward)>(forward);
	rnn_backward = reinterpret_cast<decltype(rnn_backward)>(backward);
	prefer_huge_pages = reinterpret_cast<decltype(prefer_huge_pages)>(pages);
	Py_INCREF(tensor);
	Py_INCREF(parameter);
	tensor_type = tensor;
	parameter_type = parameter;
	Py_RETURN_NONE;
}

/* plan(context, rnn, dtype, has_reserve, batch_first, has_state, directions, rows, input, units, width, a tuple of each weight's rows and
 * columns) */
PyObject *plan(PyObject *, PyObject *arguments)
{
	unsigned long long context, rnn;
	long long has_reserve, batch_first, has_state, directions, rows, input, units, width;
	int dtype;
	PyObject *parts;

	if (!PyArg_ParseTuple(arguments, "KKiLLLLLLLLO!", &context, &rnn, &dtype, &has_reserve, &batch_first, &has_state, &directions, &rows,
	                      &input, &units, &width, &PyTuple_Type, &parts))
		return nullptr;
	const struct { int ours; int32_t theirs; int64_t size; } dtypes[] = {
		{ CG_F32, aoti_torch_dtype_float32(), 4 }, { CG_F64, aoti_torch_dtype_float64(), 8 },
		{ CG_F16, aoti_torch_dtype_float16(), 2 }, { CG_BF16, aoti_torch_dtype_bfloat16(), 2 },
	};
	try {
		Plan made = { reinterpret_cast<cg_context *>(context), reinterpret_cast<cg_rnn *>(rnn), 0, 0, has_reserve, batch_first != 0, has_state,
		              directions, rows, input, units, width, {}, 0 };
		for (const auto &row : dtypes)
			if (row.ours == dtype) {
				made.dtype = row.theirs;
				made.itemsize = row.size;
			}
		for (Py_ssize_t k = 0; k < PyTuple_Size(parts); k++)
			made.parts.push_back(PyLong_AsLongLong(PyTuple_GetItem(parts, k)));
		for (size_t k = 0; k + 1 < made.parts.size(); k += 2)
			made.params += made.parts[k] * made.parts[k + 1];
		return PyErr_Occurred() ? nullptr : PyCapsule_New(new Plan(made), CAPSULE, close);
	} catch (const std::bad_alloc &) {
		return PyErr_NoMemory();
	}
}

/* Takes a reference if the result is Py_None, so that the caller owns the result in any case. */
PyObject *owned(PyObject *result)
{
	if (result == Py_None)
		Py_INCREF(result);
	return result;
}

/* forward(plan, input, list or tuple of weights, h0 or None, c0 or None, counter, a tensor for the reserve space or None) */
PyObject *forward(PyObject *, PyObject *const *arguments, Py_ssize_t count)
{
	Plan *of = count == 7 ? plan_of(arguments[0]) : nullptr;
	const unsigned long long counter = of ? PyLong_AsUnsignedLongLong(arguments[5]) : 0;

	if (!of || PyErr_Occurred())
		return PyErr_Format(PyExc_TypeError, "forward: expected a plan, an input, weights, h0, c0, a counter and a reserve space");
	return owned(forward_of(*of, arguments[1], arguments[2], arguments[3], arguments[4], counter, arguments[6]));
}

/* backward(plan, d_output or None, d_h or None, d_c or None, input, list or tuple of weights, h0 or None, c0 or None, reserve, counter,
 * needs: a tuple of bools, one for each of the input, h0, c0 and the weights) */
PyObject *backward(PyObject *, PyObject *const *arguments, Py_ssize_t count)
{
	Plan *of = count == 11 ? plan_of(arguments[0]) : nullptr;
	const unsigned long long counter = of ? PyLong_AsUnsignedLongLong(arguments[9]) : 0;

	if (!of || PyErr_Occurred())
		return PyErr_Format(PyExc_TypeError, "backward: expected a plan, d_output, d_h, d_c, an input, weights, h0, c0, a reserve, a counter "
		                    "and needs");
	return owned(backward_of(*of, arguments + 1, arguments[4], arguments[5], arguments[6], arguments[7], arguments[8], counter,
	                         arguments[10]));
}

PyMethodDef methods[] = {
	{ "start", start, METH_VARARGS, nullptr },
	{ "plan", plan, METH_VARARGS, nullptr },
	{ "forward", reinterpret_cast<PyCFunction>(reinterpret_cast<void *>(forward)), METH_FASTCALL, nullptr },
	{ "backward", reinterpret_cast<PyCFunction>(reinterpret_cast<void *>(backward)), METH_FASTCALL, nullptr },
	{ nullptr, nullptr, 0, nullptr },
};

PyModuleDef module = { PyModuleDef_HEAD_INIT, "_extension", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr };

}

PyMODINIT_FUNC PyInit__extension()
{
	PyObject *made = PyModule_Create(&module);

	/* The version of the header that this file was compiled with. */
	if (made && PyModule_AddObject(made, "VERSION", PyUnicode_FromFormat("%d.%d.%d", CG_VERSION_MAJOR, CG_VERSION_MINOR, CG_VERSION_PATCH))) {
		Py_DECREF(made);
		return nullptr;
	}
	return made;
}
