// SPDX-License-Identifier: Apache-2.0
/* program.h -- what the programs share: the driver, loaded by its name, and one kernel.
 *
 * The programs know the driver's interface and nothing of who provides it: they load libcuda.so.1
 * and take what the loader finds. Every call must succeed; one that does not ends the program with
 * a line that says which. What they print never differs from run to run.
 *
 * A kernel is PTX. A driver that cannot run it may have a function by which C is registered in its
 * place; that is asked for by name, and done without where it is missing. */
#ifndef PROGRAMS_PROGRAM_H
#define PROGRAMS_PROGRAM_H

#include "cuda_min.h"

/* name, the name that the library exports for these parameters, parameters */
#define DRIVER_FUNCTIONS(X)                                                                        \
    X(Init, "cuInit", (unsigned int flags))                                                        \
    X(PrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext * context, CUdevice device))        \
    X(CtxSetCurrent, "cuCtxSetCurrent", (CUcontext context))                                       \
    X(MemGetAllocationGranularity, "cuMemGetAllocationGranularity",                                \
      (size_t * bytes, const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags option))  \
    X(MemAddressReserve, "cuMemAddressReserve",                                                    \
      (CUdeviceptr * address, size_t bytes, size_t alignment, CUdeviceptr hint,                    \
       unsigned long long flags))                                                                  \
    X(MemAddressFree, "cuMemAddressFree", (CUdeviceptr address, size_t bytes))                     \
    X(MemCreate, "cuMemCreate",                                                                    \
      (CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp *prop,       \
       unsigned long long flags))                                                                  \
    X(MemRelease, "cuMemRelease", (CUmemGenericAllocationHandle handle))                           \
    X(MemMap, "cuMemMap",                                                                          \
      (CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,      \
       unsigned long long flags))                                                                  \
    X(MemUnmap, "cuMemUnmap", (CUdeviceptr address, size_t bytes))                                 \
    X(MemSetAccess, "cuMemSetAccess",                                                              \
      (CUdeviceptr address, size_t bytes, const CUmemAccessDesc *desc, size_t count))              \
    X(MemGetAccess, "cuMemGetAccess",                                                              \
      (unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address))             \
    X(MemExportToShareableHandle, "cuMemExportToShareableHandle",                                  \
      (void *shareable, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,       \
       unsigned long long flags))                                                                  \
    X(MemImportFromShareableHandle, "cuMemImportFromShareableHandle",                              \
      (CUmemGenericAllocationHandle * handle, void *shareable, CUmemAllocationHandleType type))    \
    X(MemGetInfo, "cuMemGetInfo_v2", (size_t * free_bytes, size_t * total_bytes))                  \
    X(MemcpyDtoH, "cuMemcpyDtoH_v2", (void *to, CUdeviceptr from, size_t bytes))                   \
    X(MemcpyHtoD, "cuMemcpyHtoD_v2", (CUdeviceptr to, const void *from, size_t bytes))             \
    X(MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2",                                                     \
      (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                           \
    X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2",                                                     \
      (void *to, CUdeviceptr from, size_t bytes, CUstream stream))                                 \
    X(MemsetD32Async, "cuMemsetD32Async",                                                          \
      (CUdeviceptr address, unsigned int value, size_t count, CUstream stream))                    \
    X(MemAllocAsync, "cuMemAllocAsync", (CUdeviceptr * address, size_t bytes, CUstream stream))    \
    X(MemAllocFromPoolAsync, "cuMemAllocFromPoolAsync",                                            \
      (CUdeviceptr * address, size_t bytes, CUmemoryPool pool, CUstream stream))                   \
    X(MemFreeAsync, "cuMemFreeAsync", (CUdeviceptr address, CUstream stream))                      \
    X(MemPoolCreate, "cuMemPoolCreate", (CUmemoryPool * pool, const CUmemPoolProps *props))        \
    X(MemPoolDestroy, "cuMemPoolDestroy", (CUmemoryPool pool))                                     \
    X(MemPoolTrimTo, "cuMemPoolTrimTo", (CUmemoryPool pool, size_t bytes))                         \
    X(MemPoolSetAttribute, "cuMemPoolSetAttribute",                                                \
      (CUmemoryPool pool, CUmemPool_attribute attribute, void *value))                             \
    X(MemPoolGetAttribute, "cuMemPoolGetAttribute",                                                \
      (CUmemoryPool pool, CUmemPool_attribute attribute, void *value))                             \
    X(StreamCreate, "cuStreamCreate", (CUstream * stream, unsigned int flags))                     \
    X(StreamDestroy, "cuStreamDestroy_v2", (CUstream stream))                                      \
    X(StreamSynchronize, "cuStreamSynchronize", (CUstream stream))                                 \
    X(StreamWaitEvent, "cuStreamWaitEvent", (CUstream stream, CUevent event, unsigned int flags))  \
    X(StreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream stream, CUstreamCaptureMode mode))  \
    X(StreamEndCapture, "cuStreamEndCapture", (CUstream stream, CUgraph * graph))                  \
    X(EventCreate, "cuEventCreate", (CUevent * event, unsigned int flags))                         \
    X(EventDestroy, "cuEventDestroy_v2", (CUevent event))                                          \
    X(EventRecord, "cuEventRecord", (CUevent event, CUstream stream))                              \
    X(EventSynchronize, "cuEventSynchronize", (CUevent event))                                     \
    X(LaunchHostFunc, "cuLaunchHostFunc", (CUstream stream, CUhostFn function, void *user))        \
    X(LaunchKernel, "cuLaunchKernel",                                                              \
      (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,         \
       unsigned int block_x, unsigned int block_y, unsigned int block_z,                           \
       unsigned int shared_bytes, CUstream stream, void **params, void **extra))                   \
    X(ModuleLoadData, "cuModuleLoadData", (CUmodule * module, const void *image))                  \
    X(ModuleUnload, "cuModuleUnload", (CUmodule module))                                           \
    X(ModuleGetFunction, "cuModuleGetFunction",                                                    \
      (CUfunction * function, CUmodule module, const char *name))                                  \
    X(GraphDestroy, "cuGraphDestroy", (CUgraph graph))                                             \
    X(GraphGetNodes, "cuGraphGetNodes", (CUgraph graph, CUgraphNode * nodes, size_t * count))      \
    X(GraphNodeGetType, "cuGraphNodeGetType", (CUgraphNode node, CUgraphNodeType * type))          \
    X(GraphKernelNodeGetParams, "cuGraphKernelNodeGetParams_v2",                                   \
      (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS * params))                                        \
    X(GraphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams_v2",                           \
      (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params))                 \
    X(GraphInstantiateWithFlags, "cuGraphInstantiateWithFlags",                                    \
      (CUgraphExec * exec, CUgraph graph, unsigned long long flags))                               \
    X(GraphExecDestroy, "cuGraphExecDestroy", (CUgraphExec exec))                                  \
    X(GraphLaunch, "cuGraphLaunch", (CUgraphExec exec, CUstream stream))

struct driver {
#define DRIVER_MEMBER(name, symbol, parameters) CUresult(*name) parameters;
    DRIVER_FUNCTIONS(DRIVER_MEMBER)
#undef DRIVER_MEMBER
};
extern struct driver cu;

/* CALL(MemUnmap(address, bytes)): ends the program when the call fails. */
#define CALL(call) program_check(#call, cu.call)
void program_check(const char *call, CUresult result);

/* Loads the driver and makes device 0's primary context current. */
void program_begin(void);

/* Ends the program because something is not as it must be. */
void program_fail(const char *what);

/* The kernel `scale`: (u64 words, u32 factor, u32 addend, u32 count), each of count words becomes
 * itself times the factor plus the addend. */
CUfunction program_scale(void);
void program_launch_scale(CUstream stream, CUdeviceptr words, uint32_t factor, uint32_t addend,
                          uint32_t count);

/* Memory of device 0, which other processes can be given when it is to be exported. */
CUmemAllocationProp program_prop(int exported);
void program_allow(CUdeviceptr address, size_t bytes, CUmemAccess_flags flags);

/* Prints a sum over words at a device address, with a label. */
void program_print_sum(const char *label, CUdeviceptr words, size_t count);

#endif
