#include "structure.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES 64
#define MIN_PIECE_BYTES ((size_t)4 << 10)  /* little work is lost if reading restarts */
#define MAX_PIECE_BYTES ((size_t)32 << 10) /* its offsets fit into the cache */
#define MAX_PENDING_BYTES ((size_t)16 << 20)

/* One bit per byte of a block. */
typedef struct {
    uint64_t quote, backslash, space;
    uint64_t mark;    /* brackets, colons, commas, and control characters that differ only in bit 0x20 */
    uint64_t special; /* control characters, and bytes beyond ASCII */
} Masks;

static inline unsigned first_bit(uint64_t bits)
{
#if defined(__GNUC__)
    return (unsigned)__builtin_ctzll(bits);
#else
    unsigned at = 0;
    while (!(bits >> at & 1))
        at++;
    return at;
#endif
}

static inline size_t count_bits(uint64_t bits)
{
#if defined(__GNUC__)
    return (size_t)__builtin_popcountll(bits);
#else
    size_t count = 0;
    for (; bits; bits &= bits - 1)
        count++;
    return count;
#endif
}

/* Return the bits of escaped bytes. */
static inline uint64_t escaped_by(uint64_t backslash, uint64_t *is_escaped)
{
    uint64_t escaped = *is_escaped;
    *is_escaped = 0;
    backslash &= ~escaped;
    while (backslash) {
        uint64_t bit = backslash & -backslash;
        escaped |= bit << 1;
        *is_escaped = bit >> 63;
        backslash &= ~(bit | bit << 1);
    }
    return escaped;
}

/* Append the offsets of a block. Eight are written at a time to avoid mispredicted branches; the next
 * block overwrites the excess. */
static inline void add_block(Structure *s, const Masks *m, size_t base)
{
    uint64_t quote = m->quote;
    if (m->backslash | s->is_escaped)
        quote &= ~escaped_by(m->backslash, &s->is_escaped);
    /* Set each bit if the number of quotes up to it is odd. */
    uint64_t inside = quote;
    for (int by = 1; by < 64; by *= 2)
        inside ^= inside << by;
    inside ^= s->in_string;
    s->in_string = 0 - (inside >> 63);
    uint64_t scalar = ~(m->mark | m->space | m->quote);
    uint64_t begins = scalar & ~(scalar << 1 | s->in_scalar);
    s->in_scalar = scalar >> 63;
    uint64_t places = quote | ((m->mark | begins) & ~inside) |
                      ((m->backslash | m->special) & inside);
    uint32_t *at = s->at + s->count;
    s->count += count_bits(places);
    for (; places; at += 8)
        for (int i = 0; i < 8; i++) {
            at[i] = (uint32_t)base + first_bit(places | 1ULL << 63);
            places &= places - 1;
        }
}

/* -- plain ------------------------------------------------------------------------------------- */

enum { QUOTE = 1, BACKSLASH = 2, SPACE = 4, MARK = 8, SPECIAL = 16 };

/* Class of each byte. A static table would have 256 lines. */
static uint8_t class_of[256];

static void make_classes(void)
{
    for (int c = 0; c < 256; c++) {
        int folded = c | 0x20;
        bool is_mark = folded == '{' || folded == '}' || folded == ',' || folded == ':';
        bool is_space = c == ' ' || c == '\n' || c == '\r' || c == '\t';
        class_of[c] = (uint8_t)((c == '"') * QUOTE | (c == '\\') * BACKSLASH | is_space * SPACE |
                                is_mark * MARK | (c < 0x20 || c >= 0x80) * SPECIAL);
    }
}

/* Return one bit per byte of a class, the first byte lowest. */
static inline uint64_t gather(uint64_t classes, uint64_t class)
{
    return (classes / class & 0x0101010101010101ULL) * 0x0102040810204080ULL >> 56;
}

static void look_plainly(Structure *s, const char *text, size_t base, size_t blocks)
{
    const unsigned char *p = (const unsigned char *)text;
    for (size_t block = 0; block < blocks; block++, p += BLOCK_BYTES) {
        Masks m = {0, 0, 0, 0, 0};
        for (int i = 0; i < BLOCK_BYTES; i += 8) {
            uint64_t classes = 0;
            for (int j = 0; j < 8; j++)
                classes |= (uint64_t)class_of[p[i + j]] << 8 * j;
            m.quote |= gather(classes, QUOTE) << i;
            m.backslash |= gather(classes, BACKSLASH) << i;
            m.space |= gather(classes, SPACE) << i;
            m.mark |= gather(classes, MARK) << i;
            m.special |= gather(classes, SPECIAL) << i;
        }
        add_block(s, &m, base + block * BLOCK_BYTES);
    }
}

/* -- by AVX2 ----------------------------------------------------------------------------------- */

#if defined(__GNUC__) && defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

/* Return whether the processor has the instructions and the system saves the registers.
 * __builtin_cpu_supports() always returns false if compiled by Zig. */
static bool has_avx2(void)
{
    unsigned a, b, c, d, saved, unused;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_POPCNT))
        return false;
    __asm__("xgetbv" : "=a"(saved), "=d"(unused) : "c"(0));
    return (saved & 6) == 6 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2)
        && (b & bit_BMI);
}

#define FOR_AVX2 __attribute__((target("avx2,bmi,popcnt")))

FOR_AVX2 static inline uint64_t bits_of(__m256i low, __m256i high)
{
    return (uint64_t)(uint32_t)_mm256_movemask_epi8(low) |
           (uint64_t)(uint32_t)_mm256_movemask_epi8(high) << 32;
}

FOR_AVX2 static void look_by_avx2(Structure *s, const char *text, size_t base, size_t blocks)
{
    /* Indexed by the low half of a byte: the only white space character, or the only mark with bit 0x20 set,
     * that has this low half; if there is none, a byte with another low half, which never matches. */
    const __m256i spaces = _mm256_setr_epi8(
        ' ', 0, 0, 0, 0, 0, 0, 0, 0, '\t', '\n', 0, 0, '\r', 0, 0,
        ' ', 0, 0, 0, 0, 0, 0, 0, 0, '\t', '\n', 0, 0, '\r', 0, 0);
    const __m256i marks = _mm256_setr_epi8(
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ':', '{', ',', '}', 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ':', '{', ',', '}', 0, 0);
    const __m256i bit = _mm256_set1_epi8(0x20), quote = _mm256_set1_epi8('"'),
                  backslash = _mm256_set1_epi8('\\');
    for (size_t block = 0; block < blocks; block++, text += BLOCK_BYTES) {
        __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)text),
                b = _mm256_loadu_si256((const __m256i *)(const void *)(text + 32));
        __m256i c = _mm256_or_si256(a, bit), d = _mm256_or_si256(b, bit);
        Masks m;
        m.quote = bits_of(_mm256_cmpeq_epi8(a, quote), _mm256_cmpeq_epi8(b, quote));
        m.backslash = bits_of(_mm256_cmpeq_epi8(a, backslash), _mm256_cmpeq_epi8(b, backslash));
        m.space = bits_of(_mm256_cmpeq_epi8(a, _mm256_shuffle_epi8(spaces, a)),
                          _mm256_cmpeq_epi8(b, _mm256_shuffle_epi8(spaces, b)));
        m.mark = bits_of(_mm256_cmpeq_epi8(c, _mm256_shuffle_epi8(marks, c)),
                         _mm256_cmpeq_epi8(d, _mm256_shuffle_epi8(marks, d)));
        m.special = bits_of(_mm256_cmpgt_epi8(bit, a), _mm256_cmpgt_epi8(bit, b));
        add_block(s, &m, base + block * BLOCK_BYTES);
    }
}
#else
static bool has_avx2(void)
{
    return false;
}

#define look_by_avx2 look_plainly
#endif

/* -- a text ------------------------------------------------------------------------------------ */

static void (*look)(Structure *, const char *, size_t, size_t) = NULL;

bool structure_use(const char *way)
{
    bool is_avx2 = strcmp(way, "avx2") == 0;
    if (is_avx2 ? !has_avx2() : strcmp(way, "plain") != 0)
        return false;
    make_classes();
    look = is_avx2 ? look_by_avx2 : look_plainly;
    return true;
}

void structure_begin(Structure *s, const char *text, size_t bytes, size_t at)
{
    if (look == NULL && !structure_use("avx2"))
        structure_use("plain");
    s->text = text;
    s->bytes = bytes;
    s->end = at;
    s->piece = s->count = 0;
    s->in_string = s->is_escaped = s->in_scalar = 0;
}

bool structure_more(Structure *s, size_t start, size_t place_count)
{
    size_t pending_bytes = s->end - start;
    if (s->end == s->bytes || pending_bytes > MAX_PENDING_BYTES)
        return false;
    if (place_count > 0)
        memmove(s->at, s->at + s->count - place_count, place_count * sizeof *s->at);
    s->count = place_count;
    /* Index as much again as is pending, so that reading of long events does not restart too often. */
    size_t piece = 2 * s->piece < MIN_PIECE_BYTES ? MIN_PIECE_BYTES : 2 * s->piece;
    if (piece > MAX_PIECE_BYTES)
        piece = pending_bytes > MAX_PIECE_BYTES ? pending_bytes : MAX_PIECE_BYTES;
    size_t rest = s->bytes - s->end;
    bool is_last = rest <= piece;
    size_t blocks = (is_last ? rest : piece) / BLOCK_BYTES;
    size_t needed = s->count + (blocks + 1) * BLOCK_BYTES;
    if (needed > s->capacity) {
        uint32_t *grown = realloc(s->at, needed * sizeof *s->at);
        if (grown == NULL)
            return false;
        s->at = grown;
        s->capacity = needed;
    }
    look(s, s->text + s->end, s->end, blocks);
    s->end += s->piece = blocks * BLOCK_BYTES;
    if (is_last && s->end < s->bytes) {
        char block[BLOCK_BYTES];
        memset(block, ' ', sizeof block);
        memcpy(block, s->text + s->end, s->bytes - s->end);
        look(s, block, s->end, 1);
        s->end = s->bytes;
    }
    return true;
}

void structure_free(Structure *s)
{
    free(s->at);
    memset(s, 0, sizeof *s);
}
