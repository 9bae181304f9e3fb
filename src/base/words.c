#include "base/words.h"

#include "base/attr.h"

#include <stdint.h>
#include <string.h>

#define WORD_SIZE 48

/* Too short to tell a misspelling from another word; and more edits than this are no slip. */
#define TYPED_MIN 3
#define EDITS_MAX 3

size_t words_distance(const char *a, const char *b)
{
	size_t d[WORD_SIZE][WORD_SIZE];
	size_t n = strlen(a), m = strlen(b);

	if (n >= WORD_SIZE || m >= WORD_SIZE)
		return SIZE_MAX;
	for (size_t i = 0; i <= n; i++) {
		for (size_t j = 0; j <= m; j++) {
			size_t best;

			if (i == 0 || j == 0) {
				d[i][j] = i + j;
				continue;
			}
			best = size_min(d[i - 1][j], d[i][j - 1]) + 1;
			best = size_min(best, d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				best = size_min(best, d[i - 2][j - 2] + 1);
			d[i][j] = best;
		}
	}
	return d[n][m];
}

void guess_offer(struct guess *g, const char *word)
{
	size_t len = strlen(g->typed), distance = words_distance(g->typed, word);

	if (len < TYPED_MIN || distance > size_min((len + 2) / 3, EDITS_MAX))
		return;
	if (g->meant && distance >= g->distance)
		return;
	g->meant = word;
	g->distance = distance;
}
