/* names: the one search in arrays that are sorted by name. */
#include "controller/core/core_internal.h"

uint32_t names_search(const void *array, uint32_t count, size_t size,
                      name_of_fn *name_of, const char *name, bool *ret_found)
{
    uint32_t low = 0;
    uint32_t high = count;

    *ret_found = false;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        int order = strcmp(name_of((const char *)array + mid * size), name);

        if (order == 0) {
            *ret_found = true;
            return mid;
        }
        if (order < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}
