// SPDX-License-Identifier: Apache-2.0
/* PyTorch's allocator is a library of its own, libc10_cuda: nothing of Python or of tensors is needed.
 * Nobody catches an exception: it ends the program, and the C++ library prints what it says. */
#include "torch_allocator.h"

#include <stdexcept>
#include <string>

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

namespace allocator = c10::cuda::CUDACachingAllocator;

/* Exported by libc10_cuda for the library of tensors, which tells it so by this; no header declares it. */
namespace c10::cuda::_internal
{
C10_CUDA_API void setHasPrimaryContext(bool (*has_primary_context)(DeviceIndex));
}

namespace
{
constexpr c10::DeviceIndex device_index = 0;

void check(cudaError_t result)
{
    if (result != cudaSuccess)
        throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(result));
}

/* PyTorch counts everything in all, in small and in large blocks. */
uint64_t peak(const c10::CachingAllocator::StatArray &stat)
{
    return static_cast<uint64_t>(
        stat[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)].peak);
}
} // namespace

void torch_open(torch_device *device)
{
    cudaDeviceProp properties;

    check(cudaSetDevice(device_index));
    check(cudaFree(nullptr)); // makes the context
    c10::cuda::_internal::setHasPrimaryContext([](c10::DeviceIndex) { return true; });
    check(cudaGetDeviceProperties(&properties, device_index));
    std::string(properties.name).copy(device->name, sizeof device->name - 1);
    check(cudaDriverGetVersion(&device->driver_version));
    allocator::init(device_index + 1);
}

void torch_enter_thread()
{
    check(cudaSetDevice(device_index));
}

void *torch_stream_create()
{
    cudaStream_t stream = nullptr;

    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

/* What is cached is given back first: an expandable segment waits for its stream when it is unmapped, and
 * would wait for one that is gone. */
void torch_stream_destroy(void *stream)
{
    check(cudaDeviceSynchronize());
    allocator::emptyCache();
    check(cudaStreamDestroy(static_cast<cudaStream_t>(stream)));
}

void torch_stream_drain(void *stream)
{
    check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)));
}

void *torch_allocate(size_t bytes, void *stream)
{
    return allocator::raw_alloc_with_stream(bytes, static_cast<cudaStream_t>(stream));
}

void torch_free(void *address)
{
    allocator::raw_delete(address);
}

/* A use is told of a pointer that the allocator will free itself, which it sees by the deleter. */
void torch_use(void *address, void *stream)
{
    c10::DataPtr pointer(address, address, allocator::get()->raw_deleter(),
                         c10::Device(c10::DeviceType::CUDA, device_index));

    allocator::recordStream(
        pointer, c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(stream), device_index));
    pointer.release_context();
}

void torch_record(bool record)
{
    constexpr size_t entries = 100000;

    allocator::recordHistory(record, nullptr, entries, allocator::RecordContext::NEVER, false, {});
}

void torch_empty()
{
    check(cudaDeviceSynchronize());
    allocator::emptyCache();
    allocator::resetPeakStats(device_index);
}

void torch_get_peaks(uint64_t *reserved, uint64_t *allocated)
{
    const auto stats = allocator::getDeviceStats(device_index);

    *reserved = peak(stats.reserved_bytes);
    *allocated = peak(stats.allocated_bytes);
}

size_t torch_free_bytes()
{
    size_t free_bytes = 0;
    size_t total_bytes = 0;

    check(cudaMemGetInfo(&free_bytes, &total_bytes));
    return free_bytes;
}
