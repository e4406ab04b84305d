// A CUDA driver without a device, for tests of everything before the first launch. Environment variables set its answers.
#include <stdlib.h>
#include <string.h>

static int answer(const char *name, int otherwise) {
    const char *value = getenv(name);
    return value ? atoi(value) : otherwise;
}

int cuDriverGetVersion(int *version) { return *version = answer("FAKE_DRIVER", 12060), 0; }
int cuInit(unsigned flags) { return answer("FAKE_INIT", 0); }
int cuGetErrorName(int error, const char **name) {
    static char text[32] = "CUDA_ERROR_FAKE_";
    for (int at = 16, unit = 100; unit; unit /= 10) text[at++] = '0' + error / unit % 10;
    return *name = text, 0;
}
int cuDeviceGet(int *device, int ordinal) { return *device = 0; }
int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) { return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = context, answer("FAKE_RETAIN", 0); }
int cuDevicePrimaryCtxRelease_v2(int device) { return 0; }
int cuCtxSetCurrent(void *context) { return 0; }
int cuDeviceGetName(char *name, int length, int device) { return strcpy(name, "Fake"), 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { return *bytes = 1 << 30, 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    switch (attribute) {
    case 18: return *value = answer("FAKE_INTEGRATED", 0), 0;
    case 75: return *value = answer("FAKE_CAPABILITY", 90) / 10, 0;
    case 76: return *value = answer("FAKE_CAPABILITY", 90) % 10, 0;
    default: return *value = 1, 0;
    }
}
int cuMemGetInfo_v2(size_t *available, size_t *total) {
    return *available = answer("FAKE_FREE", 1 << 30), *total = 1 << 30, 0;
}
int cuModuleLoadData(void **module, const void *image) { return *module = module, 0; }
int cuModuleUnload(void *module) { return 0; }
// The first call after admission.
int cuStreamCreate(void **stream, unsigned flags) { return 777; }
