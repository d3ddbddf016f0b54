#include "common/system/trusted.h"

#include <unistd.h>

bool
cadre_trusted_owner(const struct stat *about)
{
    return about->st_uid == 0 || about->st_uid == geteuid();
}

bool
cadre_trusted_file(const struct stat *about)
{
    return cadre_trusted_owner(about) && !(about->st_mode & (S_IWGRP | S_IWOTH));
}

bool
cadre_trusted_folder(const struct stat *about)
{
    return cadre_trusted_file(about) || (cadre_trusted_owner(about) && about->st_mode & S_ISVTX);
}
