#!/bin/sh
# Makes the two roles and the database of docs/operations.md, "A PostgreSQL of your own". Run once, as superuser of an empty server.
set -eu
psql --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres --no-psqlrc \
    --set password="$NOUS_DB_PASSWORD" --set owner_password="$NOUS_DB_OWNER_PASSWORD" <<'SQL'
CREATE ROLE nous_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE nous LOGIN PASSWORD :'password';
CREATE DATABASE nous OWNER nous_owner;
\c nous
CREATE EXTENSION IF NOT EXISTS vector;
SQL
