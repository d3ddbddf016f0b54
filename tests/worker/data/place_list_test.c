#include "worker/data/place_list.h"

#include <criterion/criterion.h>

#include "common/base/memory.h"

TestSuite(place_list, .timeout = 240);

static void
check_place(const cadre_place_list_t *list, size_t index, const cadre_reader_place_t *wanted)
{
    const cadre_reader_place_t place = cadre_place_list_at(list, index);
    cr_expect(place.next_file == wanted->next_file && place.is_open == wanted->is_open &&
                  place.offset == wanted->offset && place.number == wanted->number &&
                  place.center == wanted->center && place.row == wanted->row,
              "place %zu", index);
}

Test(place_list, gives_back_each_place)
{
    static const uint64_t numbers[] = {
        0,         1, 63, 64, 127, 128, 8191, 8192, UINT32_MAX, INT64_MAX, (uint64_t)INT64_MAX + 1,
        UINT64_MAX};
    enum { NUMBERS = CADRE_COUNT_OF(numbers), PLACES = NUMBERS * NUMBERS };
    cadre_reader_place_t places[PLACES];
    cadre_place_list_t list = {0};
    for (size_t i = 0; i < PLACES; i++) {
        places[i] = (cadre_reader_place_t){.offset = numbers[i % NUMBERS],
                                           .number = numbers[i / NUMBERS],
                                           .center = numbers[(i * 7 + 3) % NUMBERS],
                                           .row = (uint32_t)numbers[i * 5 % NUMBERS],
                                           .next_file = (uint32_t)numbers[i * 11 % NUMBERS],
                                           .is_open = i % 3 == 0};
        cadre_place_list_add(&list, &places[i]);
    }
    for (size_t i = PLACES; i-- > 0;) {
        check_place(&list, i, &places[i]);
    }
    cadre_place_list_fini(&list);
}

/* As they are of a text, and of lines of a CSV file. */
Test(place_list, takes_some_bytes_for_a_place)
{
    enum { PLACES = 100000 };
    for (int is_text = 0; is_text < 2; is_text++) {
        cadre_place_list_t list = {0};
        cadre_reader_place_t place = {.is_open = true, .next_file = 70};
        for (uint64_t i = 0; i < PLACES; i++) {
            place.offset += is_text ? 700 + i % 100 : 400000 + i % 9000;
            place.number += is_text ? 130 + i % 20 : 4096;
            place.center = is_text ? place.number + 5 : 0;
            place.row = is_text ? (uint32_t)(i * 7 % 36) : 0;
            cadre_place_list_add(&list, &place);
        }
        check_place(&list, PLACES - 1, &place);
        cr_expect_lt(list.size, 9 * PLACES, "%zu", list.size);
        cr_expect_geq(cadre_place_list_size_bytes(&list), list.size);
        cadre_place_list_fini(&list);
    }
}
