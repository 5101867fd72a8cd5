/* SPDX-License-Identifier: Apache-2.0 */
/* What a library with an LLVM of its own shows to all that is loaded after it, as TensorFlow's and PyTorch's do: a driver that has one,
 * too, is bound to these instead of its own, and ends the process. */
#include <stdlib.h>

#define SHOWN(name) void name(void); void name(void) { abort(); }
SHOWN(_ZN4llvm2cl6Option11addArgumentEv)
SHOWN(_ZN4llvm2cl18getGeneralCategoryEv)
SHOWN(_ZNK4llvm17ManagedStaticBase21RegisterManagedStaticEPFPvvEPFvS1_E)
SHOWN(_ZN4llvm11LLVMContextC1Ev)
