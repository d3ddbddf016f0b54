/*
 * plane - the two kinds of connection between tasks: control (everyone to the coordinator) and data
 * (workers and the coordinator to each ps).
 */
#ifndef CADRE_COMMON_WIRE_PLANE_H
#define CADRE_COMMON_WIRE_PLANE_H

typedef enum {
    CADRE_PLANE_CONTROL = 1,
    CADRE_PLANE_DATA = 2,
} cadre_plane_t;

#endif
