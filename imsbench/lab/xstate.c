/* Lets user-mode Linux start on processors with AMX; preloaded into linux.uml, compiled where it is needed.
 *
 * Linux 6.1 keeps 2,696 bytes of a process's extended state (PTRACE_SETREGSET, NT_X86_XSTATE). A host
 * kernel takes the whole area only, which AMX makes 11,008 bytes: EFAULT, and the guest's first process
 * dies. What is missing is added here in its initial state, as nothing in a guest uses it: a component
 * that does not fit into what was given is marked as not present (Intel SDM volume 1, chapter 13).
 *
 * No header is included, so that a compiler alone will do.
 */
typedef unsigned long size;

extern long syscall(long number, ...);
extern int *__errno_location(void);
extern void *memcpy(void *to, const void *from, size count);
extern void *memset(void *at, int value, size count);

enum { SYS_PTRACE = 101, SETREGSET = 0x4205, PEEK_FIRST = 1, PEEK_LAST = 3 };
enum { NT_X86_XSTATE = 0x202, LEGACY_AND_HEADER = 576, XSTATE_BV = 512, XSTATE_LEAF = 13 };

struct vector { void *base; size length; };

static unsigned char area[1 << 16] __attribute__((aligned(64)));
/* The whole area's length, and where each component ends: CPUID, which in a virtual machine is an exit to
 * the hypervisor. Asked for at each of a guest's system calls, all 62 of them took a tenth of a millisecond. */
static unsigned whole_length, end_of[63];

static void learn(void)
{
    for (unsigned number = 0; number < 63; number++) {
        unsigned a = XSTATE_LEAF, b, c = number, d;
        __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
        if (number == 0)
            whole_length = b;
        else
            end_of[number] = a + b;
    }
}

static int widen(const struct vector *given, struct vector *whole)
{
    unsigned long present;
    if (!whole_length)
        learn();
    if (given->length < LEGACY_AND_HEADER || given->length >= whole_length
            || whole_length > sizeof area)
        return 0;
    memcpy(area, given->base, given->length);
    memset(area + given->length, 0, whole_length - given->length);
    memcpy(&present, area + XSTATE_BV, sizeof present);
    for (unsigned i = 2; i < 63; i++)
        if (present >> i & 1 && end_of[i] > given->length)
            present &= ~(1ul << i);
    memcpy(area + XSTATE_BV, &present, sizeof present);
    whole->base = area;
    whole->length = whole_length;
    return 1;
}

long ptrace(long request, long pid, void *address, void *data)
{
    long word = 0, result;
    int peeks = request >= PEEK_FIRST && request <= PEEK_LAST;
    struct vector whole;
    if (request == SETREGSET && (long)address == NT_X86_XSTATE && widen(data, &whole))
        data = &whole;
    result = syscall(SYS_PTRACE, request, pid, address, peeks ? (void *)&word : data);
    if (peeks && result >= 0) {
        *__errno_location() = 0;
        return word;
    }
    return result;
}
