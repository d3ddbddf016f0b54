/*
 * cpu_chain - several element operations in one pass over memory.
 *
 * A block of the output goes through all links before the next one begins: what one link leaves for
 * another stays in the first-level cache.
 */
#include "worker/device/cpu.h"

enum { BLOCK = 512 };

typedef struct {
    const cadre_operands_t *operands;
    cadre_cpu_source_t sources[CADRE_CHAIN_INPUTS_MAX + CADRE_CHAIN_LINKS_MAX]; /* of one block */
    _Alignas(64) cadre_real_t results[CADRE_CHAIN_LINKS_MAX - 1][BLOCK]; /* of all links but the
                                                                            last, of one block */
} run_t;

/* The links over the `count` elements that begin `first` elements into the inner loop at `place`.
 */
static void
run_block(run_t *self, const cadre_strided_place_t *place, int64_t first, int64_t count)
{
    const cadre_operands_t *operands = self->operands;
    const cadre_plan_step_t *step = operands->step;
    const cadre_chain_t *chain = operands->chain;
    for (int i = 0; i < step->input_count; i++) {
        int64_t stride = step->walk.stride[i][step->walk.rank - 1];
        self->sources[i].data =
            (const cadre_real_t *)operands->data[i] + place->at[i] + first * stride;
        self->sources[i].step = stride;
    }
    for (int k = 0; k < chain->link_count; k++) {
        const cadre_chain_link_t *link = &chain->links[k];
        bool last = k == chain->link_count - 1;
        cadre_real_t *out =
            last ? (cadre_real_t *)operands->out_data + place->out + first : self->results[k];
        cadre_cpu_source_t sources[3];
        for (int i = 0; i < 3; i++) {
            sources[i] = self->sources[link->sources[i]];
        }
        cadre_cpu_link(link, out, sources, count);
        self->sources[step->input_count + k] = (cadre_cpu_source_t){.data = out, .step = 1};
    }
}

void
cadre_cpu_chain(const cadre_operands_t *operands)
{
    run_t run;
    run.operands = operands;
    const cadre_strided_t *walk = &operands->step->walk;
    cadre_strided_place_t place;
    cadre_strided_start(walk, &place);
    do {
        int64_t count = walk->size[walk->rank - 1];
        for (int64_t first = 0; first < count; first += BLOCK) {
            run_block(&run, &place, first, count - first < BLOCK ? count - first : BLOCK);
        }
    } while (cadre_strided_next(walk, &place));
}
