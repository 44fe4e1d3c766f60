/* A disk with a volatile write cache, preloaded into the server (`LD_PRELOAD`).
 *
 * The server reads and writes the files below VOLATILE_ROOT as usual. VOLATILE_SHADOW holds the data that a real disk
 * would still have after a power cut:
 *
 *   root      the inode number of VOLATILE_ROOT
 *   f/INODE   the content of a file as of its last fsync or fdatasync; missing: never synced
 *   d/INODE   the entries of a folder as of its last fsync, one `TYPE INODE NAME` per line; missing: never synced
 *
 * This is what POSIX promises and no more: a new, renamed or removed name is durable once its folder is synced. With
 * VOLATILE_LIES=1 the disk answers fdatasync without keeping anything, as a disk does that lies. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILES_MAX 65536

static char root[PATH_MAX];
static char shadow[PATH_MAX];
static int armed, lies;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The unsynced range of each written file, by inode. Inodes are never reused, see `keep_inode`. */
static struct { ino_t inode; off_t from, to; } dirty[FILES_MAX];

static void fail(const char *what)
{
  perror(what);
  abort();
}

static size_t place_of(ino_t inode)
{
  size_t place = (size_t)inode % FILES_MAX;
  while (dirty[place].inode != 0 && dirty[place].inode != inode)
    place = (place + 1) % FILES_MAX;
  return place;
}

static void mark(int fd, off_t from, off_t to)
{
  struct stat about;
  if (!armed || fstat(fd, &about) != 0 || !S_ISREG(about.st_mode))
    return;
  int before = errno;
  pthread_mutex_lock(&lock);
  size_t place = place_of(about.st_ino);
  if (dirty[place].inode == 0 || dirty[place].from == dirty[place].to) {
    dirty[place].inode = about.st_ino;
    dirty[place].from = from;
    dirty[place].to = to;
  } else {
    if (from < dirty[place].from)
      dirty[place].from = from;
    if (to > dirty[place].to)
      dirty[place].to = to;
  }
  pthread_mutex_unlock(&lock);
  errno = before;
}

/* Keeps the inode of a removed file in use, so that no later file has its number. */
static void keep_inode(int folder, const char *path)
{
  if (!armed)
    return;
  int before = errno;
  (void)!openat(folder, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  errno = before;
}

/* Copies a range of a file, without its holes. */
static void copy_range(int from, int to, off_t begin, off_t end)
{
  static char page[1 << 16];
  while (begin < end) {
    off_t data = lseek(from, begin, SEEK_DATA);
    if (data < 0 || data >= end)
      return;
    off_t hole = lseek(from, data, SEEK_HOLE);
    if (hole < 0 || hole > end)
      hole = end;
    for (begin = data; begin < hole;) {
      size_t length = (size_t)(hole - begin) < sizeof page ? (size_t)(hole - begin) : sizeof page;
      ssize_t got = pread(from, page, length, begin);
      if (got <= 0)
        return;
      static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
      if (!real_pwrite)
        real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
      if (real_pwrite(to, page, (size_t)got, begin) != got)
        fail("the shadow of a file");
      begin += got;
    }
  }
}

static void sync_file(const char *path, const struct stat *about)
{
  char kept[PATH_MAX + 64];
  snprintf(kept, sizeof kept, "%s/f/%llu", shadow, (unsigned long long)about->st_ino);
  int is_first = access(kept, F_OK) != 0;
  int from = open(path, O_RDONLY | O_CLOEXEC);
  int to = open(kept, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (from < 0 || to < 0)
    fail(path);
  size_t place = place_of(about->st_ino);
  if (is_first)
    copy_range(from, to, 0, about->st_size);
  else if (dirty[place].inode != 0)
    copy_range(from, to, dirty[place].from, dirty[place].to);
  dirty[place].from = dirty[place].to = 0;
  if (ftruncate(to, about->st_size) != 0)
    fail("the length of a shadow");
  close(from);
  close(to);
}

static void sync_folder(const char *path, const struct stat *about)
{
  char kept[PATH_MAX + 64], unfinished[PATH_MAX + 64];
  snprintf(kept, sizeof kept, "%s/d/%llu", shadow, (unsigned long long)about->st_ino);
  snprintf(unfinished, sizeof unfinished, "%s/d/new", shadow);
  DIR *folder = opendir(path);
  FILE *list = fopen(unfinished, "we");
  if (!folder || !list)
    fail(path);
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
      continue;
    struct stat of;
    if (fstatat(dirfd(folder), entry->d_name, &of, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    fprintf(list, "%c %llu %s\n", S_ISDIR(of.st_mode) ? 'd' : 'f', (unsigned long long)of.st_ino, entry->d_name);
  }
  closedir(folder);
  static int (*real_rename)(const char *, const char *);
  if (!real_rename)
    real_rename = dlsym(RTLD_NEXT, "rename");
  if (fclose(list) != 0 || real_rename(unfinished, kept) != 0)
    fail("the shadow of a folder");
}

static int is_below_root(const char *path)
{
  size_t length = strlen(root);
  return strncmp(path, root, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static void sync_path(const char *path)
{
  struct stat about;
  if (stat(path, &about) != 0)
    return;
  if (S_ISDIR(about.st_mode))
    sync_folder(path, &about);
  else if (S_ISREG(about.st_mode))
    sync_file(path, &about);
}

static int on_start(const char *path, const struct stat *about, int kind, struct FTW *where)
{
  (void)about, (void)kind, (void)where;
  sync_path(path);
  return 0;
}

__attribute__((constructor)) static void start(void)
{
  const char *from = getenv("VOLATILE_ROOT"), *to = getenv("VOLATILE_SHADOW");
  if (!from || !to)
    return;
  snprintf(root, sizeof root, "%s", from);
  snprintf(shadow, sizeof shadow, "%s", to);
  lies = getenv("VOLATILE_LIES") != NULL;
  /* The files that exist at the start count as synced. */
  nftw(root, on_start, 16, FTW_PHYS);
  struct stat about;
  char kept[PATH_MAX + 64];
  snprintf(kept, sizeof kept, "%s/root", shadow);
  FILE *file = fopen(kept, "we");
  if (stat(root, &about) != 0 || !file)
    fail(root);
  fprintf(file, "%llu", (unsigned long long)about.st_ino);
  fclose(file);
  armed = 1;
}

static int sync_fd(int fd)
{
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0)
    return -1;
  path[length] = 0;
  if (!is_below_root(path))
    return 0;
  pthread_mutex_lock(&lock);
  struct stat about;
  if (fstat(fd, &about) == 0) {
    if (S_ISDIR(about.st_mode))
      sync_folder(link, &about);
    else if (S_ISREG(about.st_mode))
      sync_file(link, &about);
  }
  pthread_mutex_unlock(&lock);
  return 0;
}

int fsync(int fd)
{
  return armed ? sync_fd(fd) : 0;
}

int fdatasync(int fd)
{
  return armed && !lies ? sync_fd(fd) : 0;
}

#define REAL(type, name, ...)                                                                                        \
  static type (*real)(__VA_ARGS__);                                                                                  \
  if (!real)                                                                                                         \
  real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static void mark_last(int fd, ssize_t written)
{
  if (written <= 0 || !armed)
    return;
  off_t end = lseek(fd, 0, SEEK_CUR);
  if (end >= written)
    mark(fd, end - written, end);
}

ssize_t write(int fd, const void *bytes, size_t length)
{
  REAL(ssize_t, "write", int, const void *, size_t);
  ssize_t written = real(fd, bytes, length);
  mark_last(fd, written);
  return written;
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
  REAL(ssize_t, "writev", int, const struct iovec *, int);
  ssize_t written = real(fd, parts, count);
  mark_last(fd, written);
  return written;
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t at)
{
  REAL(ssize_t, "pwrite64", int, const void *, size_t, off_t);
  ssize_t written = real(fd, bytes, length, at);
  if (written > 0)
    mark(fd, at, at + written);
  return written;
}

int ftruncate64(int fd, off_t length)
{
  REAL(int, "ftruncate64", int, off_t);
  int done = real(fd, length);
  if (done == 0)
    mark(fd, 0, length);
  return done;
}

int unlink(const char *path)
{
  REAL(int, "unlink", const char *);
  keep_inode(AT_FDCWD, path);
  return real(path);
}

int unlinkat(int folder, const char *path, int flags)
{
  REAL(int, "unlinkat", int, const char *, int);
  keep_inode(folder, path);
  return real(folder, path, flags);
}

int rmdir(const char *path)
{
  REAL(int, "rmdir", const char *);
  keep_inode(AT_FDCWD, path);
  return real(path);
}

int rename(const char *from, const char *to)
{
  REAL(int, "rename", const char *, const char *);
  keep_inode(AT_FDCWD, to);
  return real(from, to);
}
