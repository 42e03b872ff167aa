// Futures of atta_hpx.hpp, with a stand-in for HPX (tests/c/hpx): results, errors, and each thread registered once.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "atta.hpp"
#include "atta_hpx.hpp"

#define CHECK(what)                                                         \
    do {                                                                    \
        if (!(what)) {                                                      \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
            std::_Exit(1);                                                  \
        }                                                                   \
    } while (0)

static hpx::future<ssize_t> read(int fd, char *byte, off_t offset)
{
    return atta::hpx_call<ssize_t>("pread", [=](ssize_t *n, pxfs_cb cb, void *data) {
        return pxfs_pread(fd, byte, 1, offset, n, cb, data);
    });
}

static int error_of(hpx::future<ssize_t> future)
{
    try {
        future.get();
    } catch (const std::system_error &error) {
        return error.code().value();
    }
    return 0;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    {
        atta::library library;
        std::string path = std::string(argv[1]) + "/f";
        int fd = ::open(path.c_str(), O_RDWR | O_CREAT, 0600), directory = ::open(argv[1], O_RDONLY);
        CHECK(fd >= 0 && directory >= 0 && ::write(fd, "0123456789", 10) == 10);
        std::vector<char> bytes(10);
        std::vector<hpx::future<ssize_t>> reads;
        for (int i = 0; i < 10; i++)
            reads.push_back(read(fd, &bytes[static_cast<size_t>(i)], i));
        for (auto &future : reads)
            CHECK(future.get() == 1);
        CHECK(std::string(bytes.begin(), bytes.end()) == "0123456789");
        CHECK(error_of(read(directory, bytes.data(), 0)) == EISDIR); // as a status
        CHECK(error_of(read(-1, bytes.data(), 0)) == EBADF);         // refused
        CHECK(::close(fd) == 0 && ::close(directory) == 0);
    }
    auto *runtime = hpx::get_runtime_ptr();
    CHECK(runtime->registered >= 1 && runtime->registered <= 2 && runtime->left == runtime->registered);
    return 0;
}
