// SPDX-License-Identifier: Apache-2.0
/* sharing.c -- memory that leaves the process: exported as a file descriptor, as a buffer for other
 * devices, or by the older interprocess handles. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "contract/contract.h"

#define BYTES (4 * MIB)

/* The driver takes a file descriptor in a pointer. */
static void *as_pointer(int fd)
{
    return (void *)(intptr_t)fd;
}

static tn_cu_memhandle make_shareable(void)
{
    tn_cu_allocation_prop prop = contract_prop(0);
    tn_cu_memhandle handle;
    prop.requested_handle_types = TN_CU_MEM_HANDLE_TYPE_POSIX_FD;
    SET_UP(cuMemCreate(&handle, BYTES, &prop, 0));
    return handle;
}

static int export_fd(tn_cu_memhandle handle)
{
    int fd = -1;
    SET_UP(cuMemExportToShareableHandle(&fd, handle, TN_CU_MEM_HANDLE_TYPE_POSIX_FD, 0));
    return fd;
}

static tn_cu_memhandle import_fd(int fd)
{
    tn_cu_memhandle handle = 0;
    SET_UP(cuMemImportFromShareableHandle(&handle, as_pointer(fd), TN_CU_MEM_HANDLE_TYPE_POSIX_FD));
    return handle;
}

/* Maps a handle of BYTES somewhere, with access. */
static tn_cu_deviceptr place(tn_cu_memhandle handle)
{
    tn_cu_deviceptr address;
    SET_UP(cuMemAddressReserve(&address, BYTES, 0, 0, 0));
    SET_UP(cuMemMap(address, BYTES, 0, handle, 0));
    contract_open(address, BYTES);
    return address;
}

static void take_away(tn_cu_deviceptr address)
{
    SET_UP(cuMemUnmap(address, BYTES));
    SET_UP(cuMemAddressFree(address, BYTES));
}

/* -- File descriptors -- */

CASE_BODY(export_twice)
{
    tn_cu_memhandle handle = make_shareable();
    int fd[2] = {-1, -1};
    for (int i = 0; i < 2; i++)
        GIVES(SUCCESS,
              cuMemExportToShareableHandle(&fd[i], handle, TN_CU_MEM_HANDLE_TYPE_POSIX_FD, 0));
    HOLDS(fd[0] >= 0 && fd[1] >= 0 && fd[0] != fd[1], "two descriptors");
    HOLDS((fcntl(fd[0], F_GETFD) & FD_CLOEXEC) != 0, "they do not outlive exec");
    close(fd[0]);
    close(fd[1]);
    GIVES(SUCCESS, cuMemRelease(handle));
}

CASE_BODY(export_refused)
{
    tn_cu_memhandle handle = make_shareable();
    int fd = -7;
    tn_cu_memhandle plain = contract_handle(BYTES);
    STATE("memory made without it");
    GIVES(INVALID_VALUE,
          cuMemExportToShareableHandle(&fd, plain, TN_CU_MEM_HANDLE_TYPE_POSIX_FD, 0));
    STATE("no type");
    GIVES(INVALID_VALUE, cuMemExportToShareableHandle(&fd, handle, TN_CU_MEM_HANDLE_TYPE_NONE, 0));
    STATE("win32");
    GIVES(INVALID_VALUE, cuMemExportToShareableHandle(&fd, handle, TN_CU_MEM_HANDLE_TYPE_WIN32, 0));
    STATE("fabric");
    GIVES(INVALID_VALUE,
          cuMemExportToShareableHandle(&fd, handle, TN_CU_MEM_HANDLE_TYPE_FABRIC, 0));
    STATE("flags");
    GIVES(INVALID_VALUE,
          cuMemExportToShareableHandle(&fd, handle, TN_CU_MEM_HANDLE_TYPE_POSIX_FD, 1));
    STATE("handle 0");
    GIVES(INVALID_VALUE, cuMemExportToShareableHandle(&fd, 0, TN_CU_MEM_HANDLE_TYPE_POSIX_FD, 0));
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE,
          cuMemExportToShareableHandle(NULL, handle, TN_CU_MEM_HANDLE_TYPE_POSIX_FD, 0));
    HOLDS(fd == -7, "no descriptor is made");
    SET_UP(cuMemRelease(plain));
    SET_UP(cuMemRelease(handle));
}

CASE_BODY(import_twice)
{
    tn_cu_memhandle handle = make_shareable();
    tn_cu_deviceptr original = place(handle);
    int fd = export_fd(handle);
    tn_cu_memhandle imported[2] = {0, 0};
    size_t before = contract_free_bytes();
    for (int i = 0; i < 2; i++)
        GIVES(SUCCESS, cuMemImportFromShareableHandle(&imported[i], as_pointer(fd),
                                                      TN_CU_MEM_HANDLE_TYPE_POSIX_FD));
    close(fd);
    HOLDS(before == contract_free_bytes(), "importing costs nothing");
    HOLDS(imported[0] != imported[1] && imported[0] != handle && imported[1] != handle,
          "each import is another handle");
    tn_cu_deviceptr alias = place(imported[0]);
    SET_UP(cuMemsetD32(original, 42, BYTES / 4));
    HOLDS(contract_word(alias, BYTES / 4 - 1) == 42, "the bytes are shared");
    take_away(original);
    GIVES(SUCCESS, cuMemRelease(handle));
    HOLDS(before == contract_free_bytes(), "the memory outlives its first handle");
    GIVES(SUCCESS, cuMemRelease(imported[1]));
    GIVES(SUCCESS, cuMemRelease(imported[0]));
    HOLDS(contract_word(alias, 0) == 42, "and its last one, while it is mapped");
    take_away(alias);
    HOLDS(contract_free_bytes() - before == BYTES, "then it goes");
}

CASE_BODY(descriptor_holds)
{
    tn_cu_memhandle handle = make_shareable();
    size_t before = contract_free_bytes();
    int fd = export_fd(handle);
    SET_UP(cuMemRelease(handle));
    HOLDS(before == contract_free_bytes(), "the descriptor holds the memory");
    tn_cu_memhandle imported = 0;
    GIVES(SUCCESS, cuMemImportFromShareableHandle(&imported, as_pointer(fd),
                                                  TN_CU_MEM_HANDLE_TYPE_POSIX_FD));
    GIVES(SUCCESS, cuMemRelease(imported));
    HOLDS(before == contract_free_bytes(), "still");
    close(fd);
    HOLDS(contract_free_bytes() - before == BYTES, "it goes when it is closed");
}

CASE_BODY(import_refused)
{
    tn_cu_memhandle handle = 7;
    tn_cu_memhandle exported = make_shareable();
    int closed = export_fd(exported);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(closed);
    STATE("descriptor -1");
    GIVES(UNKNOWN,
          cuMemImportFromShareableHandle(&handle, as_pointer(-1), TN_CU_MEM_HANDLE_TYPE_POSIX_FD));
    STATE("a closed one");
    GIVES(UNKNOWN, cuMemImportFromShareableHandle(&handle, as_pointer(closed),
                                                  TN_CU_MEM_HANDLE_TYPE_POSIX_FD));
    STATE("/dev/null");
    GIVES(UNKNOWN, cuMemImportFromShareableHandle(&handle, as_pointer(null),
                                                  TN_CU_MEM_HANDLE_TYPE_POSIX_FD));
    HOLDS(handle == 7, "the handle is untouched");
    close(null);
    SET_UP(cuMemRelease(exported));
}

CASE_BODY(import_arguments)
{
    tn_cu_memhandle original = make_shareable();
    tn_cu_memhandle handle = 7;
    int fd = export_fd(original);
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE,
          cuMemImportFromShareableHandle(NULL, as_pointer(fd), TN_CU_MEM_HANDLE_TYPE_POSIX_FD));
    STATE("win32");
    GIVES(NOT_SUPPORTED,
          cuMemImportFromShareableHandle(&handle, as_pointer(fd), TN_CU_MEM_HANDLE_TYPE_WIN32));
    STATE("no type");
    GIVES(INVALID_VALUE,
          cuMemImportFromShareableHandle(&handle, as_pointer(fd), TN_CU_MEM_HANDLE_TYPE_NONE));
    close(fd);
    SET_UP(cuMemRelease(original));
}

CASE_BODY(imported_properties)
{
    tn_cu_memhandle handle = make_shareable();
    int fd = export_fd(handle);
    tn_cu_memhandle imported = import_fd(fd);
    tn_cu_allocation_prop prop;
    int second = -7;
    memset(&prop, 0x55, sizeof prop);
    close(fd);
    GIVES(SUCCESS, cuMemGetAllocationPropertiesFromHandle(&prop, imported));
    HOLDS(prop.type == TN_CU_MEM_ALLOCATION_TYPE_PINNED &&
              prop.location.type == TN_CU_MEM_LOCATION_TYPE_DEVICE && prop.location.id == 0,
          "the type and the location");
    HOLDS(prop.requested_handle_types == 0, "no handle types");
    STATE("exporting it again");
    GIVES(INVALID_VALUE,
          cuMemExportToShareableHandle(&second, imported, TN_CU_MEM_HANDLE_TYPE_POSIX_FD, 0));
    SET_UP(cuMemRelease(imported));
    SET_UP(cuMemRelease(handle));
}

CASE_BODY(imported_attributes)
{
    tn_cu_memhandle handle = make_shareable();
    tn_cu_deviceptr original = place(handle);
    int fd = export_fd(handle);
    tn_cu_memhandle imported = import_fd(fd);
    tn_cu_deviceptr alias = place(imported);
    tn_cu_memhandle retained = 0;
    uint64_t types = 7;
    uint64_t blocks[2] = {0, 0};
    close(fd);
    GIVES(SUCCESS, cuPointerGetAttribute(&types, TN_CU_POINTER_ALLOWED_HANDLE_TYPES, alias));
    HOLDS(types == 0, "no handle types");
    SET_UP(cuPointerGetAttribute(&blocks[0], TN_CU_POINTER_MEMORY_BLOCK_ID, original));
    SET_UP(cuPointerGetAttribute(&blocks[1], TN_CU_POINTER_MEMORY_BLOCK_ID, alias));
    HOLDS(blocks[0] != blocks[1], "another MEMORY_BLOCK_ID than the original's");
    GIVES(SUCCESS, cuMemRetainAllocationHandle(&retained, (void *)alias));
    HOLDS(retained == imported, "the imported handle is found from the address");
    SET_UP(cuMemRelease(retained));
    take_away(alias);
    take_away(original);
    SET_UP(cuMemRelease(imported));
    SET_UP(cuMemRelease(handle));
}

/* -- Between two processes -- */

static bool begin_driver(void)
{
    tn_cu_context context;
    return cu.cuInit(0) == TN_CUDA_SUCCESS &&
           cu.cuDevicePrimaryCtxRetain(&context, 0) == TN_CUDA_SUCCESS &&
           cu.cuCtxSetCurrent(context) == TN_CUDA_SUCCESS;
}

/* What the second process found. */
struct share_report {
    tn_cu_result result;
    uint32_t word;
};

/* Imports what it is sent, reads the first word, and writes the second. */
int contract_helper_importer(int socket)
{
    struct share_report report;
    memset(&report, 0, sizeof report);
    int fd = contract_receive_fd(socket);
    if (!begin_driver())
        return 1;
    tn_cu_memhandle handle = 0;
    report.result =
        cu.cuMemImportFromShareableHandle(&handle, as_pointer(fd), TN_CU_MEM_HANDLE_TYPE_POSIX_FD);
    close(fd);
    if (report.result == TN_CUDA_SUCCESS) {
        tn_cu_deviceptr address = place(handle);
        report.word = contract_word(address, 0);
        SET_UP(cuMemsetD32(address + 4, 99, 1));
        SET_UP(cuCtxSynchronize());
    }
    contract_send(socket, &report, sizeof report);
    return 0;
}

CASE_BODY(other_imports)
{
    tn_cu_memhandle handle = make_shareable();
    tn_cu_deviceptr address = place(handle);
    struct share_report report;
    SET_UP(cuMemsetD32(address, 1234, 2));
    SET_UP(cuCtxSynchronize());
    struct contract_process other = contract_process_start("importer");
    int fd = export_fd(handle);
    contract_send_fd(other.socket, fd);
    close(fd);
    contract_receive(other.socket, &report, sizeof report);
    contract_gives(TN_CUDA_SUCCESS, "cuMemImportFromShareableHandle(", report.result);
    HOLDS(report.word == 1234, "the second process sees the bytes");
    contract_process_end(&other);
    HOLDS(contract_word(address, 1) == 99, "and this one what the second wrote");
    take_away(address);
    SET_UP(cuMemRelease(handle));
}

/* Exports memory, and ends. */
int contract_helper_exporter(int socket)
{
    if (!begin_driver())
        return 1;
    tn_cu_memhandle handle = make_shareable();
    tn_cu_deviceptr address = place(handle);
    SET_UP(cuMemsetD32(address, 4321, BYTES / 4));
    SET_UP(cuCtxSynchronize());
    int fd = export_fd(handle);
    contract_send_fd(socket, fd);
    char byte;
    contract_receive(socket, &byte, 1);
    return 0;
}

CASE_BODY(exporter_ends)
{
    struct contract_process other = contract_process_start("exporter");
    int fd = contract_receive_fd(other.socket);
    tn_cu_memhandle handle = 0;
    GIVES(SUCCESS,
          cuMemImportFromShareableHandle(&handle, as_pointer(fd), TN_CU_MEM_HANDLE_TYPE_POSIX_FD));
    close(fd);
    tn_cu_deviceptr address = place(handle);
    HOLDS(contract_word(address, 0) == 4321, "the bytes are there");
    contract_send(other.socket, "", 1);
    contract_process_end(&other);
    HOLDS(contract_word(address, BYTES / 4 - 1) == 4321, "they outlive the process");
    take_away(address);
    SET_UP(cuMemRelease(handle));
}

/* -- Buffers for other devices -- */

/* Makes a buffer of a range, and shows how large it is. */
static void buffer_of(const char *what, tn_cu_deviceptr address, size_t bytes)
{
    int fd = -7;
    STATE("%s", what);
    if (GIVES(SUCCESS, cuMemGetHandleForAddressRange(&fd, address, bytes,
                                                     TN_CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0)) !=
        TN_CUDA_SUCCESS)
        return;
    HOLDS(lseek(fd, 0, SEEK_END) == (off_t)bytes, "%zu bytes", bytes);
    HOLDS((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0, "it does not outlive exec");
    close(fd);
}

CASE_BODY(buffer)
{
    struct contract_mapped mapped = contract_map(BYTES);
    tn_cu_deviceptr linear;
    SET_UP(cuMemAlloc(&linear, BYTES));
    buffer_of("a mapping", mapped.address, BYTES);
    buffer_of("pages of it", mapped.address + 4096, 8192);
    contract_access(mapped.address, BYTES, TN_CU_MEM_ACCESS_NONE);
    buffer_of("without access", mapped.address, BYTES);
    buffer_of("linear memory", linear, BYTES);
    buffer_of("pages of it", linear + 4096, 4096);
    SET_UP(cuMemFree(linear));
    contract_unmap(mapped);
}

CASE_BODY(buffer_import)
{
    struct contract_mapped mapped = contract_map(BYTES);
    tn_cu_memhandle handle = 7;
    int fd = -7;
    SET_UP(cuMemGetHandleForAddressRange(&fd, mapped.address, BYTES,
                                         TN_CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    GIVES(UNKNOWN,
          cuMemImportFromShareableHandle(&handle, as_pointer(fd), TN_CU_MEM_HANDLE_TYPE_POSIX_FD));
    close(fd);
    contract_unmap(mapped);
}

CASE_BODY(buffer_refused)
{
    const tn_cu_range_handle_type dma_buf = TN_CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
    struct contract_mapped mapped = contract_map(BYTES);
    int fd = -7;
    int local;
    STATE("no byte");
    GIVES(INVALID_VALUE, cuMemGetHandleForAddressRange(&fd, mapped.address, 0, dma_buf, 0));
    STATE("no page");
    GIVES(INVALID_VALUE, cuMemGetHandleForAddressRange(&fd, mapped.address, 100, dma_buf, 0));
    STATE("beyond the mapping");
    GIVES(INVALID_VALUE, cuMemGetHandleForAddressRange(&fd, mapped.address, 2 * BYTES, dma_buf, 0));
    STATE("off a page");
    GIVES(INVALID_VALUE,
          cuMemGetHandleForAddressRange(&fd, mapped.address + 100, 4096, dma_buf, 0));
    STATE("no type");
    GIVES(INVALID_VALUE,
          cuMemGetHandleForAddressRange(&fd, mapped.address, BYTES, (tn_cu_range_handle_type)0, 0));
    STATE("through the bus, which this machine cannot");
    GIVES(NOT_SUPPORTED, cuMemGetHandleForAddressRange(&fd, mapped.address, BYTES, dma_buf, 1));
    STATE("flags 2");
    GIVES(INVALID_VALUE, cuMemGetHandleForAddressRange(&fd, mapped.address, BYTES, dma_buf, 2));
    STATE("memory of the process");
    GIVES(INVALID_VALUE, cuMemGetHandleForAddressRange(&fd, (uintptr_t)&local & ~UINT64_C(4095),
                                                       4096, dma_buf, 0));
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE, cuMemGetHandleForAddressRange(NULL, mapped.address, BYTES, dma_buf, 0));
    HOLDS(fd == -1, "no descriptor is made");
    contract_unmap(mapped);
}

/* -- The older handles -- */

CASE_BODY(legacy_get)
{
    tn_cu_deviceptr address;
    tn_cu_ipc_handle handles[2];
    memset(handles, 0, sizeof handles);
    SET_UP(cuMemAlloc(&address, BYTES));
    GIVES(SUCCESS, cuIpcGetMemHandle(&handles[0], address));
    STATE("of an address inside");
    GIVES(SUCCESS, cuIpcGetMemHandle(&handles[1], address + MIB));
    HOLDS(memcmp(&handles[0], &handles[1], sizeof handles[0]) == 0, "the same handle");
    SET_UP(cuMemFree(address));
}

CASE_BODY(legacy_get_refused)
{
    struct contract_mapped mapped = contract_map(BYTES);
    tn_cu_stream stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_deviceptr linear;
    tn_cu_deviceptr ordered;
    void *host;
    tn_cu_ipc_handle handle;
    int local;
    SET_UP(cuMemAlloc(&linear, BYTES));
    SET_UP(cuMemAllocAsync(&ordered, BYTES, stream));
    SET_UP(cuMemHostAlloc(&host, 4096, 0));
    STATE("a mapping");
    GIVES(INVALID_VALUE, cuIpcGetMemHandle(&handle, mapped.address));
    STATE("stream-ordered memory");
    GIVES(INVALID_VALUE, cuIpcGetMemHandle(&handle, ordered));
    STATE("page-locked memory");
    GIVES(INVALID_VALUE, cuIpcGetMemHandle(&handle, (uintptr_t)host));
    STATE("memory of the process");
    GIVES(INVALID_VALUE, cuIpcGetMemHandle(&handle, (uintptr_t)&local));
    STATE("address 0");
    GIVES(INVALID_VALUE, cuIpcGetMemHandle(&handle, 0));
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE, cuIpcGetMemHandle(NULL, linear));
    SET_UP(cuMemFree(linear));
    SET_UP(cuMemFreeAsync(ordered, stream));
    SET_UP(cuMemFreeHost(host));
    SET_UP(cuStreamSynchronize(stream));
    SET_UP(cuStreamDestroy(stream));
    contract_unmap(mapped);
}

CASE_BODY(legacy_same_process)
{
    tn_cu_deviceptr address;
    tn_cu_deviceptr opened = 7;
    tn_cu_ipc_handle handle;
    SET_UP(cuMemAlloc(&address, BYTES));
    SET_UP(cuIpcGetMemHandle(&handle, address));
    GIVES(INVALID_CONTEXT,
          cuIpcOpenMemHandle(&opened, handle, TN_CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    STATE("without its flag");
    GIVES(INVALID_VALUE, cuIpcOpenMemHandle(&opened, handle, 0));
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE, cuIpcOpenMemHandle(NULL, handle, TN_CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    STATE("a handle of nothing");
    memset(&handle, 1, sizeof handle);
    GIVES(INVALID_VALUE,
          cuIpcOpenMemHandle(&opened, handle, TN_CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    STATE("closing what was not opened");
    GIVES(INVALID_VALUE, cuIpcCloseMemHandle(address));
    GIVES(INVALID_VALUE, cuIpcCloseMemHandle(0));
    HOLDS(opened == 7, "the address is untouched");
    SET_UP(cuMemFree(address));
}

enum { LEGACY_STEPS = 9 };
static const struct {
    const char *what;
    const char *call;
    tn_cu_result expected;
} legacy_steps[LEGACY_STEPS] = {
    {"opened", "cuIpcOpenMemHandle(", TN_CUDA_SUCCESS},
    {"opened again", "cuIpcOpenMemHandle(", TN_CUDA_SUCCESS},
    {"its own handle", "cuIpcGetMemHandle(", TN_CUDA_ERROR_INVALID_VALUE},
    {"freed", "cuMemFree(", TN_CUDA_ERROR_INVALID_VALUE},
    {"closed from the middle", "cuIpcCloseMemHandle(", TN_CUDA_ERROR_INVALID_VALUE},
    {"closed", "cuIpcCloseMemHandle(", TN_CUDA_SUCCESS},
    {"still usable", "cuMemsetD8(", TN_CUDA_SUCCESS},
    {"closed again", "cuIpcCloseMemHandle(", TN_CUDA_SUCCESS},
    {"closed once too often", "cuIpcCloseMemHandle(", TN_CUDA_ERROR_INVALID_VALUE},
};

struct legacy_report {
    tn_cu_result results[LEGACY_STEPS];
    bool same;    /* both openings gave one address */
    uint8_t byte; /* the first */
};

/* Opens what it is sent, twice, looks at it, writes to it, and closes it. */
int contract_helper_legacy(int socket)
{
    const unsigned int lazy = TN_CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS;
    struct legacy_report report;
    tn_cu_ipc_handle handle;
    tn_cu_ipc_handle own;
    tn_cu_deviceptr address = 0;
    tn_cu_deviceptr again = 0;
    memset(&report, 0, sizeof report);
    contract_receive(socket, &handle, sizeof handle);
    if (!begin_driver())
        return 1;
    report.results[0] = cu.cuIpcOpenMemHandle(&address, handle, lazy);
    report.results[1] = cu.cuIpcOpenMemHandle(&again, handle, lazy);
    report.same = address == again;
    cu.cuMemcpyDtoH(&report.byte, address, 1);
    report.results[2] = cu.cuIpcGetMemHandle(&own, address);
    report.results[3] = cu.cuMemFree(address);
    report.results[4] = cu.cuIpcCloseMemHandle(address + MIB);
    report.results[5] = cu.cuIpcCloseMemHandle(address);
    report.results[6] = cu.cuMemsetD8(address, 9, 16);
    cu.cuCtxSynchronize();
    report.results[7] = cu.cuIpcCloseMemHandle(address);
    report.results[8] = cu.cuIpcCloseMemHandle(address);
    contract_send(socket, &report, sizeof report);
    return 0;
}

CASE_BODY(legacy_other_process)
{
    tn_cu_deviceptr address;
    tn_cu_ipc_handle handle;
    struct legacy_report report;
    uint8_t byte = 0;
    SET_UP(cuMemAlloc(&address, BYTES));
    SET_UP(cuMemsetD8(address, 5, BYTES));
    SET_UP(cuCtxSynchronize());
    SET_UP(cuIpcGetMemHandle(&handle, address));
    struct contract_process other = contract_process_start("legacy");
    contract_send(other.socket, &handle, sizeof handle);
    contract_receive(other.socket, &report, sizeof report);
    for (int i = 0; i < LEGACY_STEPS; i++) {
        STATE("%s", legacy_steps[i].what);
        contract_gives(legacy_steps[i].expected, legacy_steps[i].call, report.results[i]);
    }
    HOLDS(report.same, "both openings give one address");
    HOLDS(report.byte == 5, "the second process sees the bytes");
    contract_process_end(&other);
    SET_UP(cuMemcpyDtoH(&byte, address, 1));
    HOLDS(byte == 9, "and this one what the second wrote");
    SET_UP(cuMemFree(address));
}

static const struct contract_case cases[] = {
    CASE("export-twice", "Each export is a new descriptor.", export_twice),
    CASE("export-refused", "Memory leaves only as it was made to.", export_refused),
    CASE("import-twice", "Each import is a handle of its own to the same bytes.", import_twice),
    CASE("descriptor-holds", "A descriptor keeps memory alive.", descriptor_holds),
    CASE("import-refused", "What is no exported memory is not known.", import_refused),
    CASE("import-arguments", "Other handle types, and missing arguments, are refused.",
         import_arguments),
    CASE("imported-properties", "Imported memory cannot be exported again.", imported_properties),
    CASE("imported-attributes", "Imported memory is another block to pointer queries.",
         imported_attributes),
    CASE("other-imports", "Two processes share bytes through a descriptor.", other_imports),
    CASE("exporter-ends", "Imported memory outlives the process that made it.", exporter_ends),
    CASE("buffer", "Mapped memory can be handed to other devices.", buffer),
    CASE("buffer-import", "Such a buffer is no exported memory.", buffer_import),
    CASE("buffer-refused", "Only mapped memory can be handed to other devices.", buffer_refused),
    CASE("legacy-get", "Linear memory has one interprocess handle.", legacy_get),
    CASE("legacy-get-refused", "Only linear memory has an interprocess handle.",
         legacy_get_refused),
    CASE("legacy-same-process", "An interprocess handle is not opened where it was made.",
         legacy_same_process),
    CASE("legacy-other-process", "Two processes share linear memory through its handle.",
         legacy_other_process),
};
const struct contract_group contract_sharing = CONTRACT_GROUP("sharing", START_CONTEXT, cases);
