// SPDX-License-Identifier: Apache-2.0
/* What another process hands to the simulator: a file of exported memory, or a handle of linear memory.
 * The first byte chooses. Either it is refused, and the books are as before; or there is memory of the
 * size that it says, which can be given back. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "abi/functions.h"
#include "fuzz/fuzz.h"
#include "tarn/sim.h"

enum {
    LABEL_BYTES = 4096, /* of a file, behind the memory */
    IMPORTED_BYTES_MAX = 64 << 20,
};

const char *const fuzz_name = "handles";

#define DECLARATION(name, symbol, version, parameters, names) tn_cu_result symbol parameters;
TN_CUDA_SIMULATED_FUNCTIONS(DECLARATION)
#undef DECLARATION

/* The process whose memory the handles name: it has a file like a device's, and sleeps. */
static pid_t exporter;
static int exported;
static struct stat exported_status;

static void start_exporter(void)
{
    exported = memfd_create("exported", MFD_CLOEXEC);
    FUZZ_EXPECT(exported >= 0 && ftruncate(exported, IMPORTED_BYTES_MAX) == 0);
    FUZZ_EXPECT(fstat(exported, &exported_status) == 0);
    exporter = fork();
    FUZZ_EXPECT(exporter >= 0);
    if (exporter > 0)
        return;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
        (void)pause();
}

void fuzz_begin(void)
{
    tn_cu_context context;

    start_exporter();
    FUZZ_EXPECT(cuInit(0) == TN_CUDA_SUCCESS);
    FUZZ_EXPECT(cuDevicePrimaryCtxRetain(&context, 0) == TN_CUDA_SUCCESS);
    FUZZ_EXPECT(cuCtxSetCurrent(context) == TN_CUDA_SUCCESS);
}

/* Puts a number where an input has 0. */
static void put(uint8_t *at, uint64_t number)
{
    uint64_t there;

    memcpy(&there, at, sizeof there);
    if (there == 0)
        memcpy(at, &number, sizeof number);
}

/* A sealed file of so much memory and a label; -1 when there is none to be had. */
static int make_file(uint8_t *label, size_t memory)
{
    int file = memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (file < 0)
        return -1;
    put(label + sizeof(uint64_t) * 2, memory);
    if (ftruncate(file, (off_t)(memory + LABEL_BYTES)) == 0 &&
        pwrite(file, label, FUZZ_BYTES_MAX, (off_t)memory) == FUZZ_BYTES_MAX &&
        fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return file;
    (void)close(file);
    return -1;
}

/* Memory that came out of a file can be placed, described and given back. */
static void use_memory(tn_cu_memhandle handle, size_t bytes)
{
    tn_cu_allocation_prop prop;
    tn_cu_deviceptr address = 0;

    FUZZ_EXPECT(cuMemGetAllocationPropertiesFromHandle(&prop, handle) == TN_CUDA_SUCCESS);
    FUZZ_EXPECT(prop.location.type == TN_CU_MEM_LOCATION_TYPE_DEVICE
                    ? prop.location.id == 0
                    : prop.location.type == TN_CU_MEM_LOCATION_TYPE_HOST_NUMA &&
                          prop.location.id == 0);
    FUZZ_EXPECT(cuMemAddressReserve(&address, bytes, 0, 0, 0) == TN_CUDA_SUCCESS);
    if (cuMemMap(address, bytes, 0, handle, 0) == TN_CUDA_SUCCESS) {
        tn_cu_access_desc desc = {{TN_CU_MEM_LOCATION_TYPE_DEVICE, 0}, 3};

        FUZZ_EXPECT(cuMemSetAccess(address, bytes, &desc, 1) == TN_CUDA_SUCCESS);
        *(volatile char *)(uintptr_t)(address + bytes - 1) = 1;
        FUZZ_EXPECT(cuMemUnmap(address, bytes) == TN_CUDA_SUCCESS);
    }
    FUZZ_EXPECT(cuMemAddressFree(address, bytes) == TN_CUDA_SUCCESS);
}

static void import_file(uint8_t *label, size_t granules)
{
    size_t memory = granules << 20; /* odd ones are refused */
    tn_cu_memhandle handle = 0;
    int file = make_file(label, memory);

    if (file < 0)
        return;
    if (cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)file,
                                       TN_CU_MEM_HANDLE_TYPE_POSIX_FD) == TN_CUDA_SUCCESS) {
        use_memory(handle, memory);
        FUZZ_EXPECT(cuMemRelease(handle) == TN_CUDA_SUCCESS);
    }
    (void)close(file);
}

/* A handle: a mark, a process, a descriptor there, a device; the file's volume and number, the place, the
 * bytes. The process and the descriptor are always those of the exporter, for others are not ours. */
static void open_handle(uint8_t *bytes)
{
    tn_cu_ipc_handle handle;
    tn_cu_deviceptr address = 0;
    uint64_t size;
    int32_t process = (int32_t)exporter;
    int32_t file = (int32_t)exported;

    memcpy(bytes + 4, &process, sizeof process);
    memcpy(bytes + 8, &file, sizeof file);
    put(bytes + 16, exported_status.st_dev);
    put(bytes + 24, exported_status.st_ino);
    memcpy(&size, bytes + 40, sizeof size);
    memcpy(&handle, bytes, sizeof handle);
    if (cuIpcOpenMemHandle_v2(&address, handle, TN_CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) !=
        TN_CUDA_SUCCESS)
        return;
    FUZZ_EXPECT(size > 0 && size <= IMPORTED_BYTES_MAX);
    *(volatile char *)(uintptr_t)address = 1;
    *(volatile char *)(uintptr_t)(address + size - 1) = 1;
    FUZZ_EXPECT(cuIpcCloseMemHandle(address) == TN_CUDA_SUCCESS);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint8_t rest[FUZZ_BYTES_MAX] = {0};
    tarn_sim_ledger before;
    tarn_sim_ledger after;

    if (size == 0 || size > sizeof rest)
        return 0;
    memcpy(rest, bytes + 1, size - 1);
    tarn_sim_read_ledger(&before);
    if (bytes[0] % 2 == 0)
        import_file(rest, 1 + bytes[0] / 2 % 8);
    else
        open_handle(rest);
    tarn_sim_read_ledger(&after);
    FUZZ_EXPECT(memcmp(&before, &after, sizeof before) == 0);
    return 0;
}
