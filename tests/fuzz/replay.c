/*
 * replay - runs a fuzz target over files, and over the files of directories, where no
 * fuzzing compiler is used.  Each input, and its copies cut at every length up to 256,
 * lies at the end of its own allocation, so that a sanitizer sees one byte too far.
 */
#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include "tests/fuzz/fuzz.h"

enum { CUTS_MAX = 256 };

static unsigned input_count;

static void run_input(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);

    if (!exact) {
        fprintf(stderr, "replay: no memory\n");
        exit(EXIT_FAILURE);
    }
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static int run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    static uint8_t data[1 << 21];
    size_t size;

    if (!file) {
        fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
        return 1;
    }
    size = fread(data, 1, sizeof(data), file);
    fclose(file);
    run_input(data, size);
    for (size_t cut = 0; cut < size && cut < CUTS_MAX; cut++) {
        run_input(data, cut);
    }
    input_count++;
    return 0;
}

static int run_path(const char *path)
{
    struct stat st;
    struct dirent *item;
    DIR *dir;
    int failed = 0;

    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
        return run_file(path);
    }
    dir = opendir(path);
    if (!dir) {
        fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
        return 1;
    }
    while ((item = readdir(dir))) {
        char inner[4096];

        if (item->d_name[0] != '.') {
            snprintf(inner, sizeof(inner), "%s/%s", path, item->d_name);
            failed |= run_file(inner);
        }
    }
    closedir(dir);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;

    for (int i = 1; i < argc; i++) {
        failed |= run_path(argv[i]);
    }
    printf("%u inputs\n", input_count);
    return failed || input_count == 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
