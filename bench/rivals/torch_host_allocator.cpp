// SPDX-License-Identifier: Apache-2.0
/* This allocator is in the library of tensors, which registers it for the device when it is loaded. */
#include "torch_host_allocator.h"

#include <stdexcept>
#include <string>

#include <ATen/core/CachingHostAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

namespace
{
constexpr c10::DeviceIndex device_index = 0;

void check(cudaError_t result)
{
    if (result != cudaSuccess)
        throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(result));
}

at::HostAllocator *allocator()
{
    return at::getHostAllocator(at::kCUDA);
}
} // namespace

torch_host_block torch_host_allocate(size_t bytes)
{
    at::DataPtr pointer = allocator()->allocate(bytes);
    torch_host_block block = {pointer.get(), pointer.get_context(), pointer.get_deleter()};

    pointer.release_context();
    return block;
}

void torch_host_free(torch_host_block block)
{
    block.release(block.context);
}

void torch_host_use(torch_host_block block, void *stream)
{
    const auto own =
        c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(stream), device_index);

    if (!allocator()->record_event(block.address, block.context, own.unwrap()))
        throw std::runtime_error("the allocator does not know a block of its own");
}

void torch_host_empty()
{
    check(cudaDeviceSynchronize());
    allocator()->empty_cache();
    allocator()->reset_peak_stats();
}

void torch_host_get_peaks(uint64_t *reserved, uint64_t *allocated)
{
    const auto stats = allocator()->get_stats();

    *reserved = static_cast<uint64_t>(stats.allocated_bytes.peak);
    *allocated = static_cast<uint64_t>(stats.active_bytes.peak);
}

void *torch_device_allocate(size_t bytes)
{
    void *memory = nullptr;

    check(cudaMalloc(&memory, bytes));
    return memory;
}

void torch_device_set(void *memory, size_t bytes, void *stream)
{
    check(cudaMemsetAsync(memory, 1, bytes, static_cast<cudaStream_t>(stream)));
    check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)));
}
