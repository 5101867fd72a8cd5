# SPDX-License-Identifier: Apache-2.0
# The files of the Python packages and of their build backends.  The build backend of each pyproject.toml, not make, builds the package.
EXTRA_DIST += \
	pyproject.toml %D%/README.md \
	%D%/plugin/README.md %D%/plugin/pyproject.toml %D%/plugin/cellgrad_plugin_build.py \
	%D%/build/cellgrad_build.py %D%/build/cellgrad_project.py %D%/build/cellgrad_source.py %D%/build/cellgrad_wheel.py %D%/build/cellgrad_sdist.py \
	%D%/cellgrad/__init__.py %D%/cellgrad/__main__.py %D%/cellgrad/_arguments.py %D%/cellgrad/_bench.py %D%/cellgrad/_blocks.py %D%/cellgrad/_cell.py \
	%D%/cellgrad/_context.py %D%/cellgrad/_declare.py %D%/cellgrad/_errors.py %D%/cellgrad/_forward.py %D%/cellgrad/_kernel.py \
	%D%/cellgrad/_lib.py %D%/cellgrad/_load.py %D%/cellgrad/_network.py %D%/cellgrad/_rows.py %D%/cellgrad/_spare.py %D%/cellgrad/_weights.py %D%/cellgrad/py.typed \
	%D%/cellgrad/tensorflow/README.md %D%/cellgrad/tensorflow/__init__.py %D%/cellgrad/tensorflow/_keras.py \
	%D%/cellgrad/tensorflow/_plugin.py %D%/cellgrad/tensorflow/bench.py \
	%D%/cellgrad/onnx/README.md %D%/cellgrad/onnx/__init__.py %D%/cellgrad/onnx/_cells.py %D%/cellgrad/onnx/_layer.py %D%/cellgrad/onnx/_evaluator.py %D%/cellgrad/onnx/_model.py \
	%D%/cellgrad/torch/README.md %D%/cellgrad/torch/__init__.py %D%/cellgrad/torch/_errors.py %D%/cellgrad/torch/_device.py \
	%D%/cellgrad/torch/_spec.py %D%/cellgrad/torch/_run.py %D%/cellgrad/torch/_memory.py %D%/cellgrad/torch/_operators.py \
	%D%/cellgrad/torch/_recurrent.py %D%/cellgrad/torch/_modules.py %D%/cellgrad/torch/_any_cell.py %D%/cellgrad/torch/_replace.py \
	%D%/cellgrad/torch/_small.py %D%/cellgrad/torch/_stable.py %D%/cellgrad/torch/stable.cc %D%/cellgrad/torch/build.py %D%/cellgrad/torch/bench.py \
	%D%/cellgrad/jax/README.md %D%/cellgrad/jax/__init__.py %D%/cellgrad/jax/_network.py %D%/cellgrad/jax/_call.py %D%/cellgrad/jax/_module.py \
	%D%/cellgrad/jax/_manual_axes.py %D%/cellgrad/jax/_errors.py %D%/cellgrad/jax/bench.py
