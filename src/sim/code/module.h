// SPDX-License-Identifier: Apache-2.0
/* module.h -- modules, their kernels, and the C functions that stand in for the kernels' code.
 *
 * A library is a text that belongs to no context; each context that uses the library makes a module
 * of the text. A CUkernel names an entry of a library; its function is the function of the
 * library's module in the current context.
 *
 * Invariants
 *   SL1  a module goes with its context; a library's modules go with the library too
 *   SL2  a library has at most one module in a context
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_MODULE_H
#define TARN_SIM_MODULE_H

#include "sim/core/context.h"
#include "sim/code/ptx.h"

struct tn_sim_library;
struct tn_sim_twin;

/* A kernel of a module; lives while the module is loaded or an operation refers to the kernel. */
struct tn_sim_code {
    struct tn_sim_object object;
    uintptr_t handle; /* as given out; stays readable when the module has gone */
    uintptr_t module; /* the handle of its module, likewise */
    uintptr_t kernel; /* of the library's kernel whose function this is, or 0 */
    unsigned int references;
    struct tn_sim_ptx_entry entry;
    struct tn_sim_twin *twin; /* the record of its name, which may have no function yet */
    struct tn_sim_code *next; /* of its module */
};

struct tn_sim_module {
    struct tn_sim_object object;
    /* that the module was made of; NULL: of the program's own text */
    struct tn_sim_library *library;
    struct tn_sim_code *codes;
};

void tn_sim_code_release(struct tn_sim_code *code);

/* The function that stands in for the kernel now, or NULL. */
tarn_sim_kernel tn_sim_code_twin(const struct tn_sim_code *code);

/* Makes a module of a text, for a library or for NULL. INVALID_IMAGE, INVALID_PTX,
 * OUT_OF_MEMORY. */
tn_cu_result tn_sim_module_create(const char *text, struct tn_sim_library *library,
                                  struct tn_sim_context *context, struct tn_sim_module **module);

/* Unloads a module. Work that uses its kernels keeps them. */
void tn_sim_module_unload(struct tn_sim_module *module);

/* The kernel of the given name, or NULL. */
struct tn_sim_code *tn_sim_module_code(const struct tn_sim_module *module, const char *name);

/* Unloads every module of a context under destruction. */
void tn_sim_modules_unload_all(const struct tn_sim_context *context);

/* The code that a launch in a context names: a function of the context, or a library's kernel.
 * INVALID_HANDLE: neither. OUT_OF_MEMORY. */
tn_cu_result tn_sim_code_find(tn_cu_function handle, struct tn_sim_context *context,
                              struct tn_sim_code **code);

/* Waits for the context when a launch names a library's kernel whose code is not loaded there:
 * finding the code will load it. Returns whether the wait has given the lock up. */
bool tn_sim_code_await(tn_cu_function handle, const struct tn_sim_context *context);

/* Forgets a library's module, which is unloaded with its context. */
void tn_sim_library_forget(struct tn_sim_library *library, const struct tn_sim_module *module);

#endif
