/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong texts: for each of many the message, verbatim, with place, quoted line and caret. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/gen/cell_text.h"

#define FUNCTIONS " functions are exp, tanh, sigmoid, relu, step, clip, max, min, abs, log, log1p, expm1, sqrt, erf, mean, silu, softsign, " \
	"hard_sigmoid, softplus and gelu"

static const struct { const char *text, *message; } mistakes[] = {
	{ "", "1:1: expected 'cell NAME', got the end of the text" },
	{ "\n\n# nothing\n", "4:1: expected 'cell NAME', got the end of the text" },
	{ "gates a\n", "1:1: expected 'cell NAME' first" },
	{ "cell\n", "1:5: expected the cell's name" },
	{ "cell 9\n", "1:6: expected the cell's name, got '9'" },
	{ "cell x y\n", "1:8: expected the end of the line, got 'y'" },
	{ "cell x\ncell y\n", "2:1: a file holds one cell" },
	{ "cell x\n", "1:6: cell 'x' has no gates: expected a line 'gates' or 'input', through which the cell gets its input" },
	{ "cell x\ngates\n", "2:6: expected a gate" },
	{ "cell x\ngates a\n", "1:6: cell 'x' has no 'output'" },
	{ "cell x\ngates a\noutput h\n", "3:8: no equation computes the output 'h'" },
	{ "cell x\ngates a\nstate c\noutput h\nh = a\n", "3:7: no equation computes state 'c'" },
	{ "cell x\ngates a\noutput h\nh = a + c_prev\n", "4:9: 'c_prev' is not known here; did you mean 'h_prev'?" },
	{ ", x\n", "1:1: expected a declaration or an equation, got ','" },
	{ "cell x\ngates a, b\n", "2:8: expected a gate, got ',': names are separated by spaces" },
	{ "cell x\ngates a a\n", "2:9: 'a' is declared already" },
	{ "cell x\ngates a_i i\n", "2:11: 'i' would have the bias 'b_i', a name that is already used; choose another name" },
	{ "cell x\ngates a b_a\n", "2:9: 'b_a' is the bias of 'a'; choose another name" },
	{ "cell x\ngates b_i a_i\n", "2:11: 'a_i' would have the bias 'b_i', a name that is already used; choose another name" },
	{ "cell x\ngates a da\n", "2:9: 'da' is the adjoint of 'a'; choose another name" },
	{ "cell x\ngates da a\n", "2:10: 'a' would have the adjoint 'da', a name that is already used; choose another name" },
	{ "cell x\ngates a gda\n", "2:9: 'gda' is the adjoint of 'a'; choose another name" },
	{ "cell x\ngates a\nstate c\noutput h\ndc = a\n", "3:7: no equation computes state 'c'" },
	{ "cell x\ngates a\nstate c\noutput h\nc = a\ndc = a\n",
	  "6:1: 'dc' is the adjoint of 'c'; choose another name" },
	{ "cell x\ngates a_i\nstate c\nb_i = a_i\n", "4:1: 'b_i' is the bias of 'a_i'; choose another name" },
	{ "cell x\ngates gdh\noutput h\nh = gdh\n", "4:1: 'h' would have the adjoint 'gdh', a name that is already used; choose another name" },
	{ "cell x\ngates a b_a2 a2\n", "2:14: 'a2' would have the bias 'b_a2', a name that is already used; choose another name" },
	{ "cell x\ngates if\n", "2:7: 'if' is a reserved word of C; choose another name" },
	{ "cell x\ngates a\noption o threadIdx\n", "3:10: 'threadIdx' is a reserved word of C++ and CUDA C; choose another name" },
	{ "cell x\ngates a\nparam half\n", "3:7: 'half' is a reserved word of OpenCL C; choose another name" },
	{ "cell x\ngates a\nstate cell\noutput h\nh = a\ncell = a\n", "6:1: a file holds one cell" },
	{ "cell x\ngates a_\n", "2:7: 'a_' has a form that macros, C++ or kernels use for their own names; choose another name" },
	{ "cell x\ngates a__b\n", "2:7: 'a__b' has a form that macros, C++ or kernels use for their own names; choose another name" },
	{ "cell x\ngates a_stride\n", "2:7: 'a_stride' has a form that macros, C++ or kernels use for their own names; choose another name" },
	{ "cell x\ngates a_at\n", "2:7: 'a_at' has a form that macros, C++ or kernels use for their own names; choose another name" },
	{ "cell x\ngates a_all\n", "2:7: 'a_all' has a form that macros, C++ or kernels use for their own names; choose another name" },
	{ "cell x\ngates t1\n", "2:7: 't1' has a form that macros, C++ or kernels use for their own names; choose another name" },
	{ "cell x\ngates cg_a\n", "2:7: 'cg_a' has a form that macros, C++ or kernels use for their own names; choose another name" },
	{ "cell x\ngates acc_a\n", "2:7: 'acc_a' has a form that macros, C++ or kernels use for their own names; choose another name" },
	{ "cell x\ngates sum_a\n", "2:7: 'sum_a' has a form that macros, C++ or kernels use for their own names; choose another name" },
	{ "cell x\ngates no_a\n", "2:7: 'no_a' has a form that macros, C++ or kernels use for their own names; choose another name" },
	{ "cell x\ngates tanh\n", "2:7: 'tanh' is a reserved word of compilers' libraries; choose another name" },
	{ "cell x\ngates abcdefghijklmnopqrstuvwxy\n", "2:7: a name has at most 24 characters, this one 25" },
	{ "cell abcdefghijklmnopqrstuvwxy\n", "1:6: a name has at most 24 characters, this one 25" },
	{ "cell x\ngates a\nstate abcdefghijklmnopqrst\n", "3:7: 'abcdefghijklmnopqrst' is too long for a state or the output" },
	{ "cell x\ngates a\noutput abcdefghijklmnopqrstuvwxyz\n", "3:8: a name has at most 24 characters, this one 26" },
	{ "cell x\ngates a\noutput h k\n", "3:10: a cell has one output: expected no other" },
	{ "cell x\ngates a\noutput h\noutput k\n", "4:8: a cell has one output: expected no other" },
	{ "cell x\ngates a\nstate c c\n", "3:9: 'c_prev' is declared already" },
	{ "cell x\ngates a\nstate a\n", "3:7: 'a' is declared already" },
	{ "cell x\ngates a\noutput h\nstate h\n", "4:7: 'h_prev' is declared already" },
	{ "cell x\ngates a\noption\n", "3:7: expected the option's name" },
	{ "cell x\ngates a\noption o\n", "3:9: expected a per-unit weight" },
	{ "cell x\ngates a\noption o w\noption o v\n", "4:9: option 'o' is declared already" },
	{ "cell x\ngates a\noption o a\n", "3:10: 'a' is declared already" },
	{ "cell x\noption a v\noption b w\noption  a_b u\n",
	  "4:9: kernels with the options 'a,b' and 'a_b' would have the same name; choose another" },
	{ "cell x\noption a_b u\noption a v\noption b w\n",
	  "4:8: kernels with the options 'a_b' and 'a,b' would have the same name; choose another" },
	{ "cell x\noption a u\noption a_b v\noption b_c w\noption c z\n",
	  "5:8: kernels with the options 'a,b_c' and 'a_b,c' would have the same name; choose another" },
	{ "cell x\noption a u\noption a_a v\noption a_a_a w\n",
	  "4:8: kernels with the options 'a,a_a' and 'a_a_a' would have the same name; choose another" },
	{ "cell x\ngates a\nparam\n", "3:6: expected a param" },
	{ "cell x\ngates a\nparam p q\n", "3:9: expected ',' after the param" },
	{ "cell x\ngates a\nparam p =\n", "3:10: expected a number" },
	{ "cell x\ngates a\nparam p = x\n", "3:11: expected a number" },
	{ "cell x\ngates a\nparam p = 1,\n", "3:13: expected a param" },
	{ "cell x\ngates a\nparam p = 1e\n", "3:13: expected the digits of an exponent" },
	{ "cell x\ngates a\nparam p = 1e39\n", "3:11: a number has at most 40 digits and is below 1e38" },
	{ "cell x\ngates a\nparam p = -1.5.2\n", "3:15: expected an operator after the number" },
	{ "cell x\ngates a\nparam p, p\n", "3:10: 'p' is declared already" },
	{ HEAD "h = \n", "4:5: expected a name, a number or '('" },
	{ HEAD "h\n", "4:2: expected '=' after 'h'" },
	{ HEAD "h 1\n", "4:3: expected '=' after 'h'" },
	{ HEAD "bias k\n", "4:1: there is no declaration 'bias': there are cell, gates, split (of h alone), input (of x alone), state, output, option "
	  "(per-unit weights), weight (per unit), scalar (learnt), param (constant), stage, save; an equation has '=' here" },
	{ HEAD "weight a\n", "4:8: 'a' is declared already" },
	{ HEAD "weight\n", "4:7: expected a per-unit weight" },
	{ HEAD "weight u, v\n", "4:9: expected a per-unit weight, got ',': names are separated by spaces" },
	{ HEAD "weight o\nh = a + b * o\n", "4:8: 'o' has the adjoint 'do', a reserved word of C; choose another name" },
	{ HEAD "weight u\nh = a + b\n", "4:8: per-unit weight 'u' is not used" },
	{ HEAD "input\n", "4:6: expected a gate" },
	{ HEAD "input a\n", "4:7: 'a' is declared already" },
	{ HEAD "input x no bias y\nh = a + b + x + y\n", "4:9: gate 'no' is not used" },
	{ HEAD "input x_i x_n\nh = a + b + x_i\n", "4:11: gate 'x_n' is not used" },
	{ HEAD "u = a\nstage u\ninput c\nh = b * c\n",
	  "5:7: stage 2 has no gate for its product: expected a line 'gates' or 'split' below" },
	{ HEAD "weigh u\nh = a + b\n", "4:1: there is no declaration 'weigh'; did you mean 'weight'?" },
	{ HEAD "h = var(a) + b\n", "4:5: there is no function 'var': var(x) is mean((x - m) * (x - m)), for m = mean(x); the" FUNCTIONS },
	{ HEAD "h = sum(a) + b\n", "4:5: there is no function 'sum': mean(x) is the mean over the units of a row, and there is no sum; the" FUNCTIONS },
	{ HEAD "h = mean() + b\n", "4:10: expected a name, a number or '(', got ')'" },
	{ HEAD "h = mean(a, b)\n", "4:11: 'mean' takes 1 argument" },
	{ HEAD "mean = a\nh = mean + b\nx = meen(h)\n", "6:5: there is no function 'meen'; did you mean 'mean'? The" FUNCTIONS },
	{ HEAD "c = mean(mean(mean(mean(mean(mean(mean(mean(a))))))))\nd = mean(mean(mean(mean(mean(mean(mean(mean(c * b))))))))\n"
	  "h = mean(a - mean(d))\n", "6:1: 'h' has means of means of more than 16 levels" },
	{ HEAD "weight g = \n", "4:12: expected a number" },
	{ HEAD "weight g = 1 f\n", "4:14: expected the end of the line, got 'f'" },
	{ HEAD "option o g = x\n", "4:14: expected a number" },
	{ HEAD "scalar\n", "4:7: expected a scalar" },
	{ HEAD "scalar tau\n", "4:11: expected '=' after scalar 'tau', and the number with which its training starts" },
	{ HEAD "scalar tau = x\n", "4:14: expected a number" },
	{ HEAD "scalar tau = 1 k = 2\n", "4:16: expected ',' after the scalar" },
	{ HEAD "scalar tau = 1, tau = 2\n", "4:17: 'tau' is declared already" },
	{ HEAD "scalar tau = 1\nstate tau\n", "5:7: 'tau' is declared already" },
	{ HEAD "scalar tau = 1\ntau = a\n", "5:1: 'tau' is declared already" },
	{ HEAD "scalar tau = 1\nh = a + b * tau_prev\n",
	  "5:13: 'tau_prev' is not known here: 'tau' is a scalar, and only states and the output have a value before "
	  "the step" },
	{ HEAD "u = a\nh = b * u_prev\n",
	  "5:9: 'u_prev' is not known here: 'u' is the value of an equation, and only states and the output have a "
	  "value before the step" },
	{ HEAD "scalar tau = 1\nh = a + b * tau\nsave h tau\n",
	  "6:8: 'tau' is a scalar: expected a value that an equation above computes" },
	{ HEAD "scalar o = 1\nh = a + b * o\n", "4:8: 'o' has the adjoint 'do', a reserved word of C; choose another name" },
	{ HEAD "scalar tau = 1\nh = a + b\n", "4:8: scalar 'tau' is not used" },
	{ HEAD "h = a + b\nu = dtau\nscalar tau = 1\n",
	  "5:5: 'dtau' is not known here: expected a declared name, or one that an equation above computes" },
	{ HEAD "gatez q\n", "4:1: there is no declaration 'gatez'; did you mean 'gates'?" },
	{ HEAD "sate h\n", "4:1: there is no declaration 'sate'; did you mean 'state'?" },
	{ HEAD "7 = a\n", "4:1: expected a declaration or an equation, got '7'" },
	{ HEAD "= a\n", "4:1: expected a declaration or an equation, got '='" },
	{ HEAD "h = a +\n", "4:8: expected a name, a number or '('" },
	{ HEAD "h = a b\n", "4:7: expected an operator or the end of the line, got 'b'" },
	{ HEAD "h = (a\n", "5:1: expected ')' after the expression" },
	{ HEAD "h = a)\n", "4:6: expected an operator or the end of the line, got ')'" },
	{ HEAD "h = a + * b\n", "4:9: expected a name, a number or '(', got '*'" },
	{ HEAD "h = tanh a\n", "4:5: 'tanh' is a function: expected '(' after it" },
	{ HEAD "h = tanh(a\n", "5:1: expected ')' after the arguments" },
	{ HEAD "h = tanh()\n", "4:10: expected a name, a number or '(', got ')'" },
	{ HEAD "h = tanh(a, b)\n", "4:11: 'tanh' takes 1 argument" },
	{ HEAD "h = clip(a)\n", "4:11: expected ',' after the first argument" },
	{ HEAD "h = clip(a, b, a)\n", "4:14: 'clip' takes 2 arguments" },
	{ HEAD "h = tan(a)\n", "4:5: there is no function 'tan'; did you mean 'tanh'? The" FUNCTIONS },
	{ HEAD "h = foo(a)\n", "4:5: there is no function 'foo'; the" FUNCTIONS },
	{ HEAD "h = ln(a)\n", "4:5: there is no function 'ln': ln(x) is log(x); the" FUNCTIONS },
	{ HEAD "h = log2(a)\n", "4:5: there is no function 'log2'; did you mean 'log'? The" FUNCTIONS },
	{ HEAD "h = rsqrt(a)\n", "4:5: there is no function 'rsqrt': rsqrt(x) is 1 / sqrt(x); the" FUNCTIONS },
	{ HEAD "h = softpuls(a)\n", "4:5: there is no function 'softpuls'; did you mean 'softplus'? The" FUNCTIONS },
	{ HEAD "h = log(a, b)\n", "4:10: 'log' takes 1 argument" },
	{ HEAD "h = gelu(a, b)\n", "4:11: 'gelu' takes 1 argument" },
	{ HEAD "h = sqrt()\n", "4:10: expected a name, a number or '(', got ')'" },
	{ HEAD "h = erf a\n", "4:5: 'erf' is a function: expected '(' after it" },
	{ HEAD "h = softplus\n", "4:5: 'softplus' is a function: expected '(' after it" },
	{ HEAD "sqrt = a\n", "4:1: 'sqrt' is a reserved word of compilers' libraries; choose another name" },
	{ HEAD "h = log_sigmoid(a)\n", "4:5: there is no function 'log_sigmoid': log_sigmoid(x) is -softplus(-x); the" FUNCTIONS },
	{ HEAD "h = swish(a)\n", "4:5: there is no function 'swish': swish(x) is silu(x); the" FUNCTIONS },
	{ HEAD "h = maximum(a, b)\n", "4:5: there is no function 'maximum': maximum(a, b) is max(a, b); the" FUNCTIONS },
	{ HEAD "h = softsine(a)\n", "4:5: there is no function 'softsine'; did you mean 'softsign'? The" FUNCTIONS },
	{ HEAD "h = fabs(a)\n", "4:5: there is no function 'fabs'; did you mean 'abs'? The" FUNCTIONS },
	{ HEAD "h = max(a)\n", "4:10: expected ',' after the first argument" },
	{ HEAD "h = min(a, b, a)\n", "4:13: 'min' takes 2 arguments" },
	{ HEAD "h = abs(a, b)\n", "4:10: 'abs' takes 1 argument" },
	{ HEAD "h = max(, b)\n", "4:9: expected a name, a number or '(', got ','" },
	{ HEAD "h = silu(a, b)\n", "4:11: 'silu' takes 1 argument" },
	{ HEAD "h = silu()\n", "4:10: expected a name, a number or '(', got ')'" },
	{ HEAD "h = silu(a\n", "5:1: expected ')' after the arguments" },
	{ HEAD "h = softsign a\n", "4:5: 'softsign' is a function: expected '(' after it" },
	{ HEAD "h = a + silu\n", "4:9: 'silu' is a function: expected '(' after it" },
	{ HEAD "h = silu(x)\n",
	  "4:10: 'x' is not known here: equations read the input by gates, whose products with it are computed before" },
	{ HEAD "max = a\n", "4:1: 'max' is a reserved word of compilers' libraries; choose another name" },
	{ HEAD "h = a * 3x\n", "4:10: expected an operator after the number" },
	{ HEAD "h = a * 1.2.3\n", "4:12: expected an operator after the number" },
	{ HEAD "h = a * .\n", "4:9: expected a number" },
	{ HEAD "h = 1e38 * a\n", "4:5: a number has at most 40 digits and is below 1e38" },
	{ HEAD "h = a * 11111111111111111111111111111111111111111\n",
	  "4:9: a number has at most 40 digits and is below 1e38" },
	{ HEAD "h = a * e_prev\n", "4:9: 'e_prev' is not known here; did you mean 'h_prev'?" },
	{ HEAD "hprev = a\nh = h_prve\n", "5:5: 'h_prve' is not known here; did you mean 'h_prev'?" },
	{ HEAD "i = a\nh = I + zzzzz\n", "5:5: 'I' is not known here; did you mean 'i'?" },
	{ HEAD "h = a + h\n", "4:9: 'h' is not computed yet; its value before the step is 'h_prev'" },
	{ HEAD "h = a ** 2\n", "4:7: there are no powers; x ** 2 is x * x" },
	{ HEAD "h = (a + 1)^2\n", "4:12: there are no powers; x^2 is x * x" },
	{ "cell x\ngates a\nsplit q no bais\noutput h\nh = a + q\n", "3:9: expected 'no bias' at the end of the line, got 'no bais'" },
	{ HEAD "h = a\nh = b\n", "5:1: 'h' is declared already" },
	{ HEAD "a = b\n", "4:1: 'a' is declared already" },
	{ HEAD "h_prev = a\n", "4:1: 'h_prev' is declared already" },
	{ HEAD "h = sigmoid\n", "4:5: 'sigmoid' is a function: expected '(' after it" },
	{ HEAD "h = da\n", "4:5: 'da' is not known here: expected a declared name, or one that an equation above computes" },
	{ HEAD "h = a\nsave\n", "5:5: expected a value to save" },
	{ HEAD "h = a\nsave x\n", "5:6: 'x' is not known here: equations read the input by gates, whose products with it are computed before" },
	{ HEAD "h = a\nsave a\n", "5:6: 'a' is a gate: expected a value that an equation above computes" },
	{ HEAD "h = a\nsave h_prev\n", "5:6: 'h_prev' is a value of the step before: expected a value that an equation above computes" },
	{ HEAD "h = a\nsave h h\n", "5:9: 'h' is saved already" },
	{ HEAD "h = a + b\nsave h,\n", "5:7: expected a value to save, got ',': names are separated by spaces" },
	{ HEAD "h = , b\n", "4:5: expected a name, a number or '(', got ','" },
	{ HEAD "h = a\n", "2:9: gate 'b' is not used" },
	{ HEAD "h = b\n", "2:7: gate 'a' is not used" },
	{ "cell x\ngates a\noutput h\noption o w\nh = a\n", "4:10: per-unit weight 'w' is not used" },
	{ "cell x\ngates a\noutput h\nparam p\nh = a\n", "4:7: param 'p' is not used" },
	{ HEAD "v = a + b\nstage\n", "5:6: expected the value that the new stage's product takes" },
	{ HEAD "v = a + b\nstage a\n", "5:7: 'a' is a gate: expected a value that an equation above computes" },
	{ HEAD "v = a + b\nstage q\n", "5:7: 'q' is not known here: expected a declared name, or one that an equation above computes" },
	{ HEAD "v = a + b\nstage v\nh = v\n",
	  "5:7: stage 2 has no gate for its product: expected a line 'gates' or 'split' below" },
	{ HEAD "v = a + b\nstage v w\n", "5:9: expected the end of the line, got 'w'" },
	{ HEAD "v = a + b\nstage v\ngates q\nu = q\nstage u\ngates r\nw = r\nstage w\ngates z\nh = z\nstage h\ngates e\n",
	  "14:7: a cell has at most 4 stages" },
	{ HEAD "h = a ? b\n", "4:7: expected an operator or the end of the line, got '?'" },
	{ HEAD "h = a @ b\n", "4:7: expected an operator or the end of the line, got '@'" },
	{ HEAD "h = a ^ 2\n", "4:7: there are no powers; x^2 is x * x" },
	{ "cell x\r\ngates a if\r\n", "2:9: 'if' is a reserved word of C; choose another name" },
	{ "cell x\rgates a\r", "1:8: expected the end of the line, got 'g'" },
	{ HEAD "h = (a +\n\n  foo(b))\n", "6:3: there is no function 'foo'; the" FUNCTIONS },
	{ HEAD "h = (foo\n+ a)\n", "4:6: 'foo' is not known here: expected a declared name, or one that an equation above computes" },
	{ HEAD "h = tan\n", "4:5: 'tan' is not known here: expected a declared name, or one that an equation above computes" },
	{ HEAD "h = (tan\n(a))\n", "4:6: there is no function 'tan'; did you mean 'tanh'? The" FUNCTIONS },
	{ HEAD "v = (a +\n b)\nv = (a +\n b)\n", "6:1: 'v' is declared already" },
	{ HEAD "h = a + b # x\nq = (a # )\n + zz)\n",
	  "6:4: 'zz' is not known here: expected a declared name, or one that an equation above computes" },
	{ HEAD "h = a */ b\n", "4:8: expected a name, a number or '(', got '/'" },
	{ HEAD "h = a // b\n", "4:8: expected a name, a number or '(', got '/'" },
	{ HEAD "h = a -\n", "4:8: expected a name, a number or '('" },
	{ HEAD "h = a + b,\n", "4:10: expected an operator or the end of the line, got ','" },
	{ HEAD "cell = a\n", "4:1: a file holds one cell" },
	{ HEAD "tanh = a\n", "4:1: 'tanh' is a reserved word of compilers' libraries; choose another name" },
	{ HEAD "h = a + b\nstate c\n", "5:7: no equation computes state 'c'" },
	{ HEAD "h = tanh(a)\nstage h\n", "5:7: 'h' is a state or the output; give an equation of its own to the value that a product takes" },
	{ HEAD "v = a\nstage v\ngates c\nw = v * c\nstage v\n", "8:7: the product of another stage takes 'v' already" },
	{ "cell x\ngates INFINITY\n", "2:7: 'INFINITY' has a form that macros, C++ or kernels use for their own names; choose another name" },
	{ "cell x\ngates int64_t\n", "2:7: 'int64_t' is a reserved word of C; choose another name" },
	{ "cell x\ngates a_offset\n", "2:7: 'a_offset' has a form that macros, C++ or kernels use for their own names; choose another name" },
	{ "cell x\ngates a_run\n", "2:7: 'a_run' has a form that macros, C++ or kernels use for their own names; choose another name" },
	{ "cell x\ngates a_out\n", "2:7: 'a_out' has a form that macros, C++ or kernels use for their own names; choose another name" },
	{ HEAD "h = a\nh_out = b\n", "5:1: 'h_out' has a form that macros, C++ or kernels use for their own names; choose another name" },
	{ HEAD "h = a\ndh_out = b\n", "5:1: 'dh_out' has a form that macros, C++ or kernels use for their own names; choose another name" },
	{ "cell x\ngates y dy\n", "2:9: 'dy' is the adjoint of 'y'; choose another name" },
	{ "cell x\ngates run\n", "2:7: 'run' is a reserved word of the kernels' text; choose another name" },
	{ "cell x\ngates a\nstate c c2 c3 c4 c5\n", "3:18: a cell has at most 4 states" },
	{ "cell x\ngates a\nparam sigmoid\n", "3:7: 'sigmoid' is a reserved word of the language of cells; choose another name" },
	{ HEAD "h = a - -\nsave h\n", "4:10: expected a name, a number or '('" },
	{ HEAD "h = a\nh = b +\n", "5:8: expected a name, a number or '('" },
	{ HEAD "gates\n", "4:6: expected a gate" },
	/* An error about an equation as a whole is reported at the beginning of the equation. */
	{ HEAD "u = a\n  vv = b\nh = u\nsave u\n", "5:3: equation 'vv' is not used" },
	{ HEAD "u = a\nv = u\nh = b\n", "5:1: equation 'v' is not used" },
	{ HEAD "v = (a +\n b)\nh = a\n", "4:1: equation 'v' is not used" },
	/* Like a gate's name, the name of a cell or an option must be no reserved word, must not end in _ and must have no __; unlike a gate's
	   name it may consist of capitals alone. */
	{ "cell for\n", "1:6: 'for' is a reserved word of C; choose another name" },
	{ "cell  gates\n", "1:7: 'gates' is a reserved word of the language of cells; choose another name" },
	{ "cell x_\n", "1:6: 'x_' has a form that macros, C++ or kernels use for their own names; choose another name" },
	{ "cell x\ngates a\noption if w\n", "3:8: 'if' is a reserved word of C; choose another name" },
	{ "cell x\ngates a\noption o__p w\n", "3:8: 'o__p' has a form that macros, C++ or kernels use for their own names; "
	                                      "choose another name" },
	{ "cell x\ngates A\n", "2:7: 'A' has a form that macros, C++ or kernels use for their own names; choose another name" },
	{ "cell x\ngates a A2\n", "2:9: 'A2' has a form that macros, C++ or kernels use for their own names; choose another name" },
};

static void test_mistakes(void **state)
{
	char want[1024];

	(void)state;
	for (size_t k = 0; k < sizeof mistakes / sizeof *mistakes; k++) {
		print_mistake(want, sizeof want, mistakes[k].text, mistakes[k].message);
		refused(mistakes[k].text, want);
	}
}

static void test_bytes(void **state)
{
	char text[256];

	(void)state;
	refused("\tcell x\n\tgates  a\tif\n", "x.cell:2:11: 'if' is a reserved word of C; choose another name\n"
	                                      "\tgates  a\tif\n\t        \t^");
	refused(HEAD "h = a + \xc3\xa9\n", "x.cell:4:9: expected a name, a number or '(', got '\xc3\xa9'\nh = a + \xc3\xa9\n        ^");
	refused(HEAD "# \xc3\xa9\nh\xc3\xa9 = a\n", "x.cell:5:2: expected '=' after 'h'\nh\xc3\xa9 = a\n ^");
	refused(HEAD "h = (a # \xc3\xa9\n", "x.cell:5:1: expected ')' after the expression\n\n^");
	refused("\xef\xbb\xbf" "cell x\n",
	        "x.cell:1:1: expected a declaration or an equation, got a byte order mark: save the file as UTF-8 without one\n"
	        "\xef\xbb\xbf" "cell x\n^");
	/* Control characters are not passed to a terminal. */
	refused(HEAD "h = \x1b[2J\n", "x.cell:4:5: expected a name, a number or '(', got a byte 0x1b\nh = ?[2J\n    ^");
	refused(HEAD "h = a \x7f\n", "x.cell:4:7: expected an operator or the end of the line, got a byte 0x7f\nh = a ?\n      ^");
	/* A byte 0 ends a cell's text. */
	snprintf(text, sizeof text, HEAD "h = a + b%cnonsense", 0);
	accepted(text);
}

/* If the expression of a form exceeds the limit of operations, the message has the place of the form's call. */
static void test_form_limit(void **state)
{
	static char text[CG_TERMS_MAX * 8];
	struct cg_mistake mistake;
	size_t n = (size_t)sprintf(text, HEAD "h = (a");

	(void)state;
	for (int k = 0; k < CG_TERMS_MAX / 2 - 4; k++)
		n += (size_t)sprintf(text + n, " + b");
	sprintf(text + n, " +\n  hard_sigmoid(b))\n");
	assert_null(cg_parse(text, "x.cell", resize, &mistake));
	assert_string_equal(mistake.text, "x.cell:5:3: the equations have more than 16384 operations and operands\n  hard_sigmoid(b))\n  ^");
}

/* Files in another encoding, binary, without a declaration, or with carriage returns alone, and the first line of each message. */
static void test_foreign(void **state)
{
	static const struct { const char *text, *message; } bad[] = {
		{ "\xef\xbb\xbf" "cell x\n",
		  "x:1:1: expected a declaration or an equation, got a byte order mark: save the file as UTF-8 without one\n" },
		{ "c\0e\0l\0l\0", "x:1:1: expected 'cell NAME' first\n" },
		{ "\xff\xfe" "c", "x:1:1: expected a declaration or an equation, got '\xff'\n" },
		{ "\x7f" "ELF", "x:1:1: expected a declaration or an equation, got a byte 0x7f\n" },
		{ "", "x:1:1: expected 'cell NAME', got the end of the text\n" },
		{ "\r\n\r\n", "x:3:1: expected 'cell NAME', got the end of the text\n" },
		{ "# only a comment", "x:1:17: expected 'cell NAME', got the end of the text\n" },
		{ "cell x\rgates a\routput h\rh = a\r", "x:1:8: expected the end of the line, got 'g'\n" },
	};

	(void)state;
	for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
		struct cg_mistake mistake;

		assert_null(cg_parse(bad[k].text, "x", resize, &mistake));
		assert_memory_equal(mistake.text, bad[k].message, strlen(bad[k].message));
		assert_int_equal(memory.live, 0);
	}
}

/* Of a long line 120 columns are quoted. */
static void test_long_line(void **state)
{
	struct cg_mistake mistake;
	char text[512] = HEAD "h = ", *message;

	(void)state;
	for (int k = 0; k < 60; k++)
		strcat(text, "a + ");
	strcat(text, "zzz\n");
	assert_null(cg_parse(text, "x.cell", resize, &mistake));
	message = strchr(mistake.text, '\n');
	assert_int_equal(strncmp(mistake.text, "x.cell:4:245: 'zzz' is not known here", 37), 0);
	assert_int_equal(strcspn(message + 1, "\n"), 120);
	assert_true(strlen(strrchr(mistake.text, '\n')) <= 112);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mistakes),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_form_limit),
		cmocka_unit_test(test_foreign),
		cmocka_unit_test(test_long_line),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
